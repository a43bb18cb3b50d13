"""Deep Speech 2 in PyTorch."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tbd_models import audio
from tbd_models.deepspeech2 import Convolution, Dimensions, padded_utterances
from tbd_models.pytorch.recurrent import GRU
from tbd_models.pytorch.workload import Batch, Workload, as_tensors
from tbd_models.synthetic import utterance_batch


class ConvBlock(nn.Module):
    """Convolution, batch normalization and a ReLU clipped at 20."""

    def __init__(self, inputs: int, outputs: int, spec: Convolution) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, spec.kernel, spec.stride, spec.padding, bias=False)
        self.bn = nn.BatchNorm2d(outputs)
        self.clipped_relu = nn.Hardtanh(0, 20, inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.clipped_relu(self.bn(self.conv(x)))


class SequenceNorm(nn.BatchNorm1d):
    """Batch normalization over utterances and time."""

    def forward(self, x: Tensor) -> Tensor:
        # (steps, N, features)
        return super().forward(x.flatten(0, 1)).unflatten(0, x.shape[:2])


class RecurrentBlock(nn.Module):
    """Batch normalization (optional), then a GRU."""

    def __init__(self, inputs: int, hidden: int, bidirectional: bool, normalized: bool) -> None:
        super().__init__()
        self.bn = SequenceNorm(inputs) if normalized else nn.Identity()
        self.gru = GRU(inputs, hidden, bidirectional=bidirectional)

    def forward(self, x: Tensor) -> Tensor:
        # (steps, N, features) to (steps, N, directions x hidden).
        states: Tensor = self.gru(self.bn(x))[0]
        return states


def _stack(d: Dimensions) -> nn.Sequential:
    bidirectional = d.directions == "joined"
    stack = nn.Sequential()
    _, features = d.features
    for number in range(d.recurrent_layers):
        normalized = d.normalized_layers and number > 0
        stack.append(RecurrentBlock(features, d.hidden, bidirectional, normalized))
        features = d.hidden * (2 if bidirectional else 1)
    return stack


class TwoStacks(nn.Module):
    """A stack of recurrent layers for each direction of time; their last outputs are joined."""

    def __init__(self, d: Dimensions) -> None:
        super().__init__()
        self.ahead = _stack(d)
        self.back = _stack(d)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.ahead(x), self.back(x.flip(0)).flip(0)], -1)


class TimeFirst(nn.Module):
    """Feature maps (N, channels, steps, bins) as sequences (steps, N, channels x bins)."""

    def forward(self, x: Tensor) -> Tensor:
        return x.permute(2, 0, 1, 3).flatten(2)


class DeepSpeech2(nn.Module):
    """Deep Speech 2 for spectrograms of shape (N, frames, bins)."""

    def __init__(self, d: Dimensions) -> None:
        super().__init__()
        self.convolutions = nn.Sequential()
        channels = 1
        for spec in d.convolutions:
            self.convolutions.append(ConvBlock(channels, d.channels, spec))
            channels = d.channels
        self.time_first = TimeFirst()
        self.recurrent = TwoStacks(d) if d.directions == "independent" else _stack(d)
        features = d.recurrent_features
        self.head = nn.Sequential()
        if d.dense:
            self.head.extend([nn.Linear(features, d.dense), nn.ReLU(inplace=True)])
            features = d.dense
        if d.normalized_head:
            self.head.append(SequenceNorm(features))
        self.head.append(nn.Linear(features, d.labels))

    def forward(self, spectrogram: Tensor) -> Tensor:
        # Returns label scores (steps, N, labels).
        x = self.time_first(self.convolutions(spectrogram[:, None]))
        return self.head(self.recurrent(x))


def ctc(scores: Tensor, batch: Batch) -> Tensor:
    """Return the mean CTC loss per utterance."""
    if scores.is_meta:
        # ctc_loss has no backward pass for meta tensors, on which layers are counted. The sum
        # returns a gradient of the same shape.
        return scores.float().sum()
    steps, size, _ = scores.shape
    transcript = batch["transcript"]
    # ctc_loss reads the lengths on the CPU; on the GPU they would force a synchronization.
    lengths = batch.get("steps", torch.full((size,), steps, device="cpu"))
    characters = batch.get("characters", torch.full((size,), transcript.shape[1], device="cpu"))
    total = nn.functional.ctc_loss(
        scores.float().log_softmax(-1),
        transcript,
        lengths,
        characters,
        reduction="sum",
        zero_infinity=True,
    )
    return total / size


def workload(d: Dimensions) -> Workload:
    """Return the workload with these dimensions."""
    return Workload(
        model=DeepSpeech2(d),
        batch=lambda size, rng: as_tensors(
            utterance_batch(size, (d.frames, d.bins), d.labels, d.transcript, rng)
        ),
        forward=lambda model, batch: model(batch["spectrogram"]),
        loss=ctc,
        optimizer=lambda parameters: torch.optim.SGD(
            parameters, lr=d.learning_rate, momentum=0.9, nesterov=d.nesterov
        ),
        clip_norm=d.clip_norm,
        sized=lambda planned, rng: as_tensors(padded_utterances(planned, d, rng)),
        decoded=audio.decoded(d.frames, d.bins, d.labels, d.transcript),
    )
