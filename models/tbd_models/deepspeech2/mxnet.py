"""Deep Speech 2 in MXNet."""

from __future__ import annotations

from typing import Any

import mxnet as mx
from mxnet.gluon import HybridBlock, nn, rnn

from tbd_models import audio
from tbd_models.deepspeech2 import Convolution, Dimensions, padded_utterances
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


def _norm(features: int) -> HybridBlock:
    # Over utterances and time ("sequence-wise").
    return nn.BatchNorm(axis=2, in_channels=features)


def _stack(d: Dimensions) -> HybridBlock:
    bidirectional = d.directions == "joined"
    stack = nn.HybridSequential()
    _, features = d.features
    for number in range(d.recurrent_layers):
        block = nn.HybridSequential()
        if d.normalized_layers and number:
            block.add(_norm(features))
        block.add(rnn.GRU(d.hidden, bidirectional=bidirectional, input_size=features))
        stack.add(block)
        features = d.hidden * (2 if bidirectional else 1)
    return stack


class TwoStacks(HybridBlock):
    """A stack of recurrent layers for each direction of time; their last outputs are joined."""

    def __init__(self, d: Dimensions) -> None:
        super().__init__()
        self.ahead = _stack(d)
        self.back = _stack(d)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        back = F.flip(self.back(F.flip(x, axis=0)), axis=0)
        return F.concat(self.ahead(x), back, dim=2)


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
        self.recurrent = TwoStacks(d) if d.directions == "independent" else _stack(d)
        features = d.recurrent_features
        self.head = nn.HybridSequential()
        if d.dense:
            self.head.add(
                nn.Dense(d.dense, flatten=False, in_units=features), nn.Activation("relu")
            )
            features = d.dense
        if d.normalized_head:
            self.head.add(_norm(features))
        self.head.add(nn.Dense(d.labels, flatten=False, in_units=features))

    def hybrid_forward(self, F: Any, spectrogram: Any) -> Any:
        # Returns label scores (steps, N, labels).
        x = self.convolutions(F.expand_dims(spectrogram, 1))
        return self.head(self.recurrent(self.time_first(x)))


def ctc(scores: Array, batch: Batch) -> Array:
    """Return the mean CTC loss per utterance."""
    # CTC multiplies many small probabilities, so float32 even in mixed precision.
    lengths = [batch[name] for name in ("steps", "characters") if name in batch]
    loss = mx.nd.CTCLoss(
        scores.astype("float32"),
        batch["transcript"],
        *lengths,
        use_data_lengths=bool(lengths),
        use_label_lengths=bool(lengths),
        blank_label="first",
    )
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
        sized=lambda planned, rng: padded_utterances(planned, d, rng),
        decoded=audio.decoded(d.frames, d.bins, d.labels, d.transcript),
    )
