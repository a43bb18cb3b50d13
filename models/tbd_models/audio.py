"""Read WAV files and compute their spectrograms, as an input pipeline for speech does."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tbd_models.decoded import ENDLESS, Decoded
from tbd_models.synthetic import Batch

_FILES = 32
# A frame begins every 10 ms and has 20 ms, so that 16 kHz give 161 bins (Amodei et al. 2016).
_FRAMES_PER_SECOND = 100


class DecodedUtterances:
    """Endless spectrograms of WAV files, in their order."""

    def __init__(self, files: list[Path], transcripts: NDArray[np.int64]) -> None:
        self.files, self.transcripts = files, transcripts

    def __len__(self) -> int:
        return ENDLESS

    def __getitem__(self, number: int) -> Batch:
        at = number % len(self.files)
        signal, rate = _read(self.files[at])
        return {"spectrogram": spectrogram(signal, rate), "transcript": self.transcripts[at]}


def _read(path: Path) -> tuple[NDArray[np.int16], int]:
    # Raises OSError for all damage.
    try:
        with wave.open(str(path)) as file:
            content = file.readframes(file.getnframes())
            if len(content) < 2 * file.getnframes():
                raise OSError(f"{path}: the file is truncated")
            return np.frombuffer(content, "<i2"), file.getframerate()
    except (EOFError, wave.Error) as error:
        raise OSError(f"{path}: {str(error) or 'the file is empty'}") from None


def spectrogram(signal: NDArray[np.int16], rate: int) -> NDArray[np.float32]:
    """Return logarithms of magnitudes (frames, bins), with mean 0 and standard deviation 1.

    Frames are windows of 20 ms (Hann), one every 10 ms; ``rate`` is in samples per second.
    """
    hop = rate // _FRAMES_PER_SECOND
    windows = np.lib.stride_tricks.sliding_window_view(signal / 2**15, 2 * hop)[::hop]
    magnitude = np.abs(np.fft.rfft(windows * np.hanning(2 * hop)))
    logs = np.log1p(magnitude)
    normal: NDArray[np.float32] = ((logs - logs.mean()) / logs.std()).astype(np.float32)
    return normal


def decoded(frames: int, bins: int, labels: int, characters: int) -> Decoded:
    """Return a function that writes WAV files and returns their spectrograms (frames, bins).

    Each file says ``characters`` of ``labels`` (0 is the blank).
    """
    # Windows of 20 ms with `bins` frequencies have this rate.
    rate = _FRAMES_PER_SECOND * (bins - 1)

    def write(directory: Path, seed: int) -> DecodedUtterances:
        rng = np.random.default_rng(seed)
        transcripts = rng.integers(1, labels, size=(_FILES, characters))
        samples = (frames + 1) * rate // _FRAMES_PER_SECOND
        files = [directory / f"{number}.wav" for number in range(_FILES)]
        for file, transcript in zip(files, transcripts, strict=True):
            with wave.open(str(file), "wb") as target:
                target.setnchannels(1)
                target.setsampwidth(2)
                target.setframerate(rate)
                target.writeframes(_tones(transcript / labels, samples, rng).tobytes())
        return DecodedUtterances(files, transcripts)

    return write


def _tones(
    pitches: NDArray[np.float64], samples: int, rng: np.random.Generator
) -> NDArray[np.int16]:
    # A character is a tone, at its share of the highest frequency, and all last equally long.
    pitch = pitches[np.arange(samples) * len(pitches) // samples]
    tone = np.sin(np.pi * np.cumsum(pitch))
    signal = 8000 * tone + 1000 * rng.standard_normal(samples)
    return np.clip(signal, -(2**15), 2**15 - 1).astype("<i2")
