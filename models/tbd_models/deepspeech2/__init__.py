"""Deep Speech 2: dimensions and variants for all frameworks."""

from __future__ import annotations

from dataclasses import dataclass

from tbd_models.definition import Model, Variant


@dataclass(frozen=True, slots=True)
class Convolution:
    """A convolution over a spectrogram; pairs are (time steps, frequency bins)."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]  # zeros on each side

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
        Convolution((11, 41), (2, 2), (5, 20)),
        Convolution((11, 21), (1, 2), (5, 10)),
    )
    recurrent_layers: int = 7
    hidden: int = 1760  # units of a GRU layer per direction
    bidirectional: bool = True  # outputs of both directions are concatenated
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
    def features(self) -> tuple[int, int]:
        """Return time steps, and features per step, after the convolutions."""
        steps, bins = self.frames, self.bins
        for convolution in self.convolutions:
            steps, bins = convolution.output(steps, bins)
        return steps, bins * self.channels


_UNPADDED = (Convolution((11, 41), (2, 2), (0, 0)), Convolution((11, 21), (1, 2), (0, 0)))

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
    variants=(
        Variant(
            name="mxnet-7x1760",
            dimensions=Dimensions(),
            small=Dimensions(
                frames=64,
                bins=41,
                channels=4,
                convolutions=(
                    Convolution((5, 11), (2, 2), (2, 5)),
                    Convolution((5, 7), (1, 2), (2, 3)),
                ),
                recurrent_layers=3,
                hidden=24,
                dense=24,
                transcript=8,
            ),
            dataset="LibriSpeech",
            default_batch_size=8,
            sweep=(1, 2, 3, 4),
            optimizer="sgd",
            parameters=373_670_333,
            forward_flop=614_551_449_600,
            training_flop=1_841_783_961_600,
            source="TBD suite, MXNet; Amodei et al. 2016, arXiv:1512.02595",
        ),
        Variant(
            name="pytorch-3x2560",
            dimensions=Dimensions(
                convolutions=_UNPADDED,
                recurrent_layers=3,
                hidden=2560,
                bidirectional=False,
                dense=0,
                learning_rate=1e-4,
                nesterov=True,
                clip_norm=400.0,
            ),
            small=Dimensions(
                frames=64,
                bins=41,
                channels=4,
                convolutions=(
                    Convolution((5, 11), (2, 2), (0, 0)),
                    Convolution((5, 7), (1, 2), (0, 0)),
                ),
                recurrent_layers=2,
                hidden=24,
                bidirectional=False,
                dense=0,
                transcript=8,
                learning_rate=1e-3,
                nesterov=True,
                clip_norm=400.0,
            ),
            dataset="LibriSpeech",
            default_batch_size=16,
            sweep=(1, 2, 4, 8, 16),
            optimizer="sgd",
            parameters=103_846_653,
            forward_flop=171_755_159_360,
            training_flop=513_865_718_400,
            source="TBD suite, PyTorch; Amodei et al. 2016, arXiv:1512.02595",
        ),
    ),
    notes=(
        "All utterances are 16 s long, the longest bucket. Convolutions are followed by batch "
        "normalization and a ReLU clipped at 20; every recurrent layer but the first is preceded "
        "by batch normalization over utterances and time. The published MXNet code clips each "
        "gradient separately at 100 and normalizes inside the GRU cell; here the norm of all "
        "gradients is clipped and GRU layers are fused, as in the other frameworks. The published "
        "PyTorch code has 3 unidirectional recurrent layers, its description 5 bidirectional ones."
    ),
)
