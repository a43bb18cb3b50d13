"""Deep Speech 2: dimensions and variants for all frameworks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from tbd_models.corpus import Corpus, PlannedBatch, by_duration
from tbd_models.definition import Model, Variant
from tbd_models.padded import utterances
from tbd_models.synthetic import Batch


@dataclass(frozen=True, slots=True)
class Convolution:
    """A convolution over a spectrogram; pairs are (time steps, frequency bins)."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int] = (0, 0)  # zeros on each side

    def output(self, steps: int, bins: int) -> tuple[int, int]:
        """Return time steps and frequency bins of the output."""
        size = (steps, bins)
        out = [
            (n + 2 * p - k) // s + 1
            for n, k, s, p in zip(size, self.kernel, self.stride, self.padding, strict=True)
        ]
        return out[0], out[1]


@dataclass(frozen=True, slots=True)
class Dimensions:
    """Dimensions of Deep Speech 2."""

    frames: int = 1600  # spectrogram frames per utterance
    frames_per_second: int = 100
    bins: int = 161  # frequency bins per frame
    channels: int = 32  # of the convolutions
    convolutions: tuple[Convolution, ...] = (
        Convolution((11, 41), (2, 2)),
        Convolution((11, 21), (1, 2)),
    )
    recurrent_layers: int = 7
    hidden: int = 1760  # units of a GRU layer per direction
    # Each direction is an independent stack of layers, and the last outputs are joined; or the
    # directions are joined after each layer; or all layers run forward.
    directions: Literal["independent", "joined", "forward"] = "independent"
    normalized_layers: bool = True  # batch normalization before GRU layers, except the first
    normalized_head: bool = False  # batch normalization before the last layer
    dense: int = 1760  # units of the fully connected layer before the last, 0 for none
    labels: int = 29  # characters, and the blank as label 0
    transcript: int = 200  # characters per utterance
    learning_rate: float = 3e-4  # of SGD with momentum 0.9
    nesterov: bool = False
    clip_norm: float = 100.0  # maximum global norm of the gradients

    @property
    def seconds(self) -> float:
        """Length of an utterance in seconds."""
        return self.frames / self.frames_per_second

    @property
    def units_per_sample(self) -> float:
        """Return the seconds of audio, the unit of throughput."""
        return self.seconds

    @property
    def recurrent_features(self) -> int:
        """Return the features per step after the GRU layers."""
        return self.hidden if self.directions == "forward" else 2 * self.hidden

    @property
    def features(self) -> tuple[int, int]:
        """Return time steps, and features per step, after the convolutions."""
        steps, bins = self.frames, self.bins
        for convolution in self.convolutions:
            steps, bins = convolution.output(steps, bins)
        return steps, bins * self.channels


_SMALL = Dimensions(
    frames=64,
    bins=41,
    channels=4,
    convolutions=(Convolution((5, 11), (2, 2)), Convolution((5, 7), (1, 2))),
    recurrent_layers=3,
    hidden=24,
    dense=24,
    transcript=8,
    learning_rate=1e-3,
)


def _joined(d: Dimensions) -> Dimensions:
    padded = (
        replace(convolution, padding=(convolution.kernel[0] // 2, convolution.kernel[1] // 2))
        for convolution in d.convolutions
    )
    return replace(d, convolutions=tuple(padded), directions="joined")


def _forward(d: Dimensions, layers: int, hidden: int, learning_rate: float) -> Dimensions:
    return replace(
        d,
        recurrent_layers=layers,
        hidden=hidden,
        directions="forward",
        normalized_layers=False,
        normalized_head=True,
        dense=0,
        learning_rate=learning_rate,
        nesterov=True,
        clip_norm=400.0,
    )


_SUITE_IN_MXNET: dict[str, Any] = {
    "dataset": "LibriSpeech",
    "default_batch_size": 8,
    "sweep": (1, 2, 3, 4),
    "optimizer": "sgd",
}

MODEL = Model(
    name="deepspeech2",
    title="Deep Speech 2",
    application="speech recognition",
    frameworks=("pytorch", "tensorflow", "mxnet"),
    layers="9",
    dominant_layer="RNN",
    dominant_types=("GRU",),
    batch_definition="utterances",
    sequence_policy="fixed",
    throughput_unit="audio s/s",
    defaults={"pytorch": "3x2560"},
    variants=(
        Variant(
            name="7x1760",
            dimensions=Dimensions(),
            small=_SMALL,
            parameters=255_398_333,
            forward_flop=409_478_530_560,
            training_flop=1_227_035_832_000,
            source="TBD suite, MXNet; Amodei et al. 2016, arXiv:1512.02595",
            **_SUITE_IN_MXNET,
        ),
        Variant(
            name="7x1760-joined",
            dimensions=_joined(Dimensions()),
            small=_joined(_SMALL),
            parameters=373_670_333,
            forward_flop=614_551_449_600,
            training_flop=1_841_783_961_600,
            source="Amodei et al. 2016, arXiv:1512.02595",
            **_SUITE_IN_MXNET,
        ),
        Variant(
            name="3x2560",
            dimensions=_forward(Dimensions(), 3, 2560, 1e-4),
            small=_forward(_SMALL, 2, 24, 1e-3),
            dataset="LibriSpeech",
            default_batch_size=16,
            sweep=(1, 2, 4, 8, 16),
            optimizer="sgd",
            parameters=103_841_533,
            forward_flop=171_755_159_360,
            training_flop=513_865_718_400,
            source="TBD suite, PyTorch; Amodei et al. 2016, arXiv:1512.02595",
        ),
    ),
    notes=(
        "All utterances are 16 s long, the longest bucket. The default is the network that the "
        "suite ran: 3x2560 in PyTorch, else 7x1760, whose two directions are independent stacks of "
        "layers, joined once after the last. In 7x1760-joined, directions are joined after each "
        "layer and convolutions are padded, which takes 50 % more FLOP and 46 % more parameters. "
        "Convolutions are followed by batch normalization and a ReLU clipped at 20. Batch "
        "normalization over utterances and time precedes each recurrent layer but the first, in "
        "3x2560 only the last layer. The suite's description of 3x2560 has 5 bidirectional layers, "
        "its code 3 unidirectional ones."
    ),
)


def corpus(d: Dimensions) -> Corpus:
    """Return utterances in batches of similar duration, in random order."""
    return Corpus(
        histogram="librispeech",
        unit="audio s",
        policy="bucketed",
        batches=by_duration,
        longest=1600,
        scale=d.frames / 1600,
        # The second convolution needs as many steps as its kernel has.
        shortest=2 * sum(convolution.kernel[0] for convolution in d.convolutions),
        units_per_length=1 / d.frames_per_second,
    )


def padded_utterances(planned: PlannedBatch, d: Dimensions, rng: np.random.Generator) -> Batch:
    """Return utterances as ``padded.utterances`` does, with ``steps`` (N) in place of ``frames``.

    Steps are those after the convolutions, without those of the padding.
    """
    batch = utterances(planned, (d.frames, d.bins, d.transcript), d.labels, rng)
    frames = batch.pop("frames")
    steps = np.array([replace(d, frames=int(count)).features[0] for count in frames])
    return batch | {"steps": steps}
