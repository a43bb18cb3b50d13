"""Deep Speech 2 in MXNet."""

from __future__ import annotations

from typing import Any

import mxnet as mx
from mxnet.gluon import HybridBlock, nn, rnn

from tbd_models.deepspeech2 import Convolution, Dimensions
from tbd_models.mxnet.workload import Array, Batch, Workload
from tbd_models.synthetic import utterance_batch


class ClippedReLU(HybridBlock):
    """A ReLU clipped at 20 (Amodei et al. 2016)."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.clip(x, 0, 20)


def _conv_block(inputs: int, outputs: int, spec: Convolution) -> HybridBlock:
    block = nn.HybridSequential()
    block.add(
        nn.Conv2D(
            outputs, spec.kernel, spec.stride, spec.padding, use_bias=False, in_channels=inputs
        ),
        nn.BatchNorm(),
        ClippedReLU(),
    )
    return block


class TimeFirst(HybridBlock):
    """Feature maps (N, channels, steps, bins) as sequences (steps, N, channels x bins)."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.reshape(F.transpose(x, axes=(2, 0, 1, 3)), shape=(0, 0, -1))


def _recurrent(inputs: int, hidden: int, bidirectional: bool, normalized: bool) -> HybridBlock:
    # Batch normalization over utterances and time ("sequence-wise"), then a GRU.
    block = nn.HybridSequential()
    if normalized:
        block.add(nn.BatchNorm(axis=2, in_channels=inputs))
    block.add(rnn.GRU(hidden, bidirectional=bidirectional, input_size=inputs))
    return block


class DeepSpeech2(HybridBlock):
    """Deep Speech 2 for spectrograms of shape (N, frames, bins)."""

    def __init__(self, d: Dimensions) -> None:
        super().__init__()
        self.convolutions = nn.HybridSequential()
        channels = 1
        for spec in d.convolutions:
            self.convolutions.add(_conv_block(channels, d.channels, spec))
            channels = d.channels
        self.time_first = TimeFirst()
        self.recurrent = nn.HybridSequential()
        _, features = d.features
        for number in range(d.recurrent_layers):
            self.recurrent.add(_recurrent(features, d.hidden, d.bidirectional, number > 0))
            features = d.hidden * (2 if d.bidirectional else 1)
        self.head = nn.HybridSequential()
        if d.dense:
            self.head.add(
                nn.Dense(d.dense, flatten=False, in_units=features), nn.Activation("relu")
            )
            features = d.dense
        self.head.add(nn.Dense(d.labels, flatten=False, in_units=features))

    def hybrid_forward(self, F: Any, spectrogram: Any) -> Any:
        # Returns label scores (steps, N, labels).
        x = self.convolutions(F.expand_dims(spectrogram, 1))
        return self.head(self.recurrent(self.time_first(x)))


def ctc(scores: Array, batch: Batch) -> Array:
    """Return the mean CTC loss per utterance."""
    # CTC multiplies many small probabilities, so float32 even in mixed precision.
    loss = mx.nd.CTCLoss(scores.astype("float32"), batch["transcript"], blank_label="first")
    return loss.mean()


def workload(d: Dimensions) -> Workload:
    """Return the workload with these dimensions."""
    shape = (d.frames, d.bins)
    optimizer = mx.optimizer.NAG if d.nesterov else mx.optimizer.SGD
    return Workload(
        model=DeepSpeech2(d),
        batch=lambda size, rng: utterance_batch(size, shape, d.labels, d.transcript, rng),
        inputs=("spectrogram",),
        loss=ctc,
        optimizer=lambda: optimizer(learning_rate=d.learning_rate, momentum=0.9, wd=0.0),
        clip_norm=d.clip_norm,
    )
