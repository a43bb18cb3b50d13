"""Generate synthetic batches of samples of unequal size, padded at their ends."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tbd_models.corpus import PlannedBatch
from tbd_models.synthetic import PADDING, Batch, scene_batch, translation_batch, utterance_batch

NO_LABEL = -100  # label of padding, which does not count in the loss


def pad(
    arrays: Sequence[NDArray[np.generic]], shape: tuple[int, ...], fill: int = 0
) -> NDArray[np.generic]:
    """Return samples, each an array of N = 1, as one array (samples, *shape)."""
    whole = np.full((len(arrays), *shape), fill, arrays[0].dtype)
    for row, array in zip(whole, arrays, strict=True):
        row[tuple(map(slice, array.shape[1:]))] = array[0]
    return whole


def translations(
    planned: PlannedBatch,
    vocabulary: int,
    rng: np.random.Generator,
    target_vocabulary: int | None = None,
) -> Batch:
    """Return pairs as ``translation_batch`` does, and ``padding`` (N, L), True after the source."""
    pairs = [
        translation_batch(1, int(length), vocabulary, rng, target_vocabulary)
        for length in planned.sizes[:, 0]
    ]
    fills = {"source": PADDING, "target": PADDING, "label": NO_LABEL}
    batch = {
        name: pad([pair[name] for pair in pairs], planned.padded, fill)
        for name, fill in fills.items()
    }
    return batch | {"padding": batch["source"] == PADDING}


def utterances(
    planned: PlannedBatch, longest: tuple[int, int, int], labels: int, rng: np.random.Generator
) -> Batch:
    """Return utterances as ``utterance_batch`` does, with ``frames`` and ``characters`` of each.

    ``longest`` is (frames, bins, characters) of the longest utterance; characters are as frequent
    in shorter ones.
    """
    frames, bins, characters = longest
    lengths = planned.sizes[:, 0]
    written = np.maximum(1, lengths * characters // frames)
    said = [
        utterance_batch(1, (int(length), bins), labels, int(count), rng)
        for length, count in zip(lengths, written, strict=True)
    ]
    spectrograms = [utterance["spectrogram"] for utterance in said]
    transcripts = [utterance["transcript"] for utterance in said]
    return {
        "spectrogram": pad(spectrograms, (*planned.padded, bins)),
        "transcript": pad(transcripts, (int(written.max()),)),
        "frames": lengths,
        "characters": written,
    }


def scenes(
    planned: PlannedBatch,
    classes: int,
    objects: int,
    rng: np.random.Generator,
    *,
    masks: bool = False,
) -> Batch:
    """Return images as ``scene_batch`` does, each in the upper left of the padded one."""
    seen = [
        scene_batch(1, (int(height), int(width)), classes, objects, rng, masks=masks)
        for height, width in planned.sizes
    ]
    shapes = {"image": (3, *planned.padded), "box": (objects, 4), "label": (objects,)}
    if masks:
        shapes["mask"] = (objects, *planned.padded)
    return {name: pad([scene[name] for scene in seen], shape) for name, shape in shapes.items()}
