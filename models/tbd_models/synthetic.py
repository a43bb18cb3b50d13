"""Generate synthetic data with a task that can be learned, equal in all frameworks.

NumPy generates all of it: equal seeds give equal batches.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Batch = dict[str, NDArray[Any]]

# The first entries of each vocabulary; words follow.
PADDING, BEGIN, END, MASK = range(4)
FIRST_WORD = 4


def image_batch(size: int, image_size: int, classes: int, rng: np.random.Generator) -> Batch:
    """Return ``image`` (N, 3, H, W) in float32 and ``label`` (N) in int64."""
    # Images of a class share a pattern under the noise, so that there is something to learn.
    label = rng.integers(classes, size=size)
    noise = rng.standard_normal((size, 3, image_size, image_size), np.float32)
    across = np.linspace(0, 1, image_size, dtype=np.float32)
    phase = (label / classes).astype(np.float32)[:, None]
    waves = (1 + label % 7).astype(np.float32)[:, None]
    pattern = np.sin(np.float32(6.28) * (phase + across * waves))
    return {"image": noise + pattern[:, None, None, :], "label": label}


def words(shape: tuple[int, ...], vocabulary: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw words by Zipf's law; ``vocabulary`` is its size with the special entries."""
    # As in real text, a few words are frequent, so a few rows of an embedding get most gradients.
    # With a uniform logarithm the probability of rank r is log(1 + 1/r), nearly 1/r.
    ranks = np.exp(rng.random(shape) * math.log(vocabulary - FIRST_WORD + 1)).astype(np.int64)
    return np.minimum(ranks + FIRST_WORD - 1, vocabulary - 1)


def text_batch(size: int, length: int, vocabulary: int, rng: np.random.Generator) -> Batch:
    """Return ``tokens`` (N, length + 1) in int64: a text, and the token that follows it.

    Every other token is predicted by the one before it, as each word has a successor.
    """
    tokens = words((size, length + 1), vocabulary, rng)
    first = tokens[:, : length // 2 * 2 : 2]
    # Successors are the words in reverse order of frequency.
    tokens[:, 1 : length // 2 * 2 : 2] = vocabulary - 1 - (first - FIRST_WORD)
    return {"tokens": tokens}


def translation_batch(
    size: int,
    length: int,
    vocabulary: int,
    rng: np.random.Generator,
    target_vocabulary: int | None = None,
) -> Batch:
    """Return sentence pairs whose translation is the reversed sentence.

    The target's vocabulary is the source's by default; in a smaller one, several words of the
    source have the same translation. ``source``, ``label`` (the translation) and ``target`` (the
    translation delayed by one word, the decoder's input) are (N, length) in int64.
    """
    source = words((size, length), vocabulary, rng)
    label = np.ascontiguousarray(source[:, ::-1])
    if target_vocabulary is not None:
        label = FIRST_WORD + (label - FIRST_WORD) % (target_vocabulary - FIRST_WORD)
    begin = np.full((size, 1), BEGIN, np.int64)
    return {
        "source": source,
        "target": np.concatenate([begin, label[:, :-1]], 1),
        "label": label,
    }


def utterance_batch(
    size: int, shape: tuple[int, int], labels: int, transcript: int, rng: np.random.Generator
) -> Batch:
    """Return ``spectrogram`` (N, frames, bins) in float32 and ``transcript`` (N, T) in int64.

    ``shape`` is (frames, bins), ``transcript`` the number of characters T, and ``labels`` the
    number of characters and the blank, which is label 0.
    """
    frames, bins = shape
    # Each character has two frequencies, and all last equally long.
    characters = rng.integers(1, labels, size=(size, transcript))
    noise = rng.standard_normal((size, frames, bins), np.float32)
    character = np.arange(frames) * transcript // frames
    sounding = (characters[:, character, None] / labels).astype(np.float32)
    across = np.linspace(0, 1, bins, dtype=np.float32)
    tones = np.exp(-400 * (across - sounding) ** 2) + np.exp(-400 * (across - sounding**2) ** 2)
    return {"spectrogram": np.float32(0.3) * noise + 2 * tones, "transcript": characters}


def scene_batch(
    size: int,
    image: tuple[int, int],
    classes: int,
    objects: int,
    rng: np.random.Generator,
    *,
    masks: bool = False,
) -> Batch:
    """Return images of rectangles (odd classes) and ellipses (even classes), coloured by class.

    Each image has 1 to ``objects`` (G) objects. ``image`` (N, 3, H, W) and ``box`` (N, G, 4; left,
    top, right, bottom in pixels) are float32, ``label`` (N, G) int64 with 0 for no object, and
    ``mask`` (N, G, H, W) uint8.
    """
    height, width = image
    number = rng.integers(1, objects + 1, size=(size, 1))
    present = np.arange(objects) < number
    label = rng.integers(1, classes + 1, size=(size, objects)) * present
    extent = np.array([width, height], np.float32)
    shape = (size, objects, 2)
    box_size = (np.float32(0.1) + np.float32(0.4) * rng.random(shape, np.float32)) * extent
    start = rng.random(shape, np.float32) * (extent - box_size)
    box = np.concatenate([start, start + box_size], -1) * present[..., None]
    picture = np.float32(0.1) * rng.standard_normal((size, 3, height, width), np.float32)
    colour = np.sin(label[..., None] * np.array([0.7, 1.9, 3.1])).astype(np.float32)
    batch = {"image": picture, "box": box, "label": label}
    if masks:
        batch["mask"] = np.zeros((size, objects, height, width), np.uint8)
    for sample, which in np.argwhere(present).tolist():
        inside, rows, columns = _shape(box[sample, which].tolist(), label[sample, which] % 2 == 1)
        # Later objects cover earlier ones, but masks include covered parts.
        picture[sample, :, rows, columns][:, inside] = colour[sample, which, :, None]
        if masks:
            batch["mask"][sample, which, rows, columns] = inside
    return batch


def _shape(corners: list[float], rectangle: bool) -> tuple[NDArray[np.bool_], slice, slice]:
    # Pixels whose centre is in the shape, and the rows and columns of its bounding box.
    left, top, right, bottom = corners
    rows = slice(math.floor(top), math.ceil(bottom))
    columns = slice(math.floor(left), math.ceil(right))
    y = np.arange(rows.start, rows.stop)[:, None] + 0.5
    x = np.arange(columns.start, columns.stop)[None, :] + 0.5
    across = (2 * x - left - right) / (right - left)  # -1 to 1 inside
    down = (2 * y - top - bottom) / (bottom - top)
    if rectangle:
        return (np.abs(across) <= 1) & (np.abs(down) <= 1), rows, columns
    return across**2 + down**2 <= 1, rows, columns


def adversarial_batch(size: int, image_size: int, latent: int, rng: np.random.Generator) -> Batch:
    """Return images to imitate and the random numbers of a generator, in float32.

    ``image`` (N, 3, H, W) is a coloured disc with a soft edge, from -1 to 1; ``noise`` (N, latent)
    is normally distributed; ``mix`` (N, 1, 1, 1), uniform from 0 to 1, interpolates between real
    and generated images (WGAN-GP's gradient penalty).
    """
    across = np.linspace(0, 1, image_size, dtype=np.float32)
    centre = rng.uniform(0.3, 0.7, (size, 2, 1)).astype(np.float32)
    squared = (across - centre) ** 2
    distance = squared[:, 0, :, None] + squared[:, 1, None, :]
    colour = rng.uniform(0.5, 1, (size, 3, 1, 1)).astype(np.float32)
    return {
        "image": 2 * colour * np.exp(-20 * distance[:, None]) - 1,
        "noise": rng.standard_normal((size, latent), np.float32),
        "mix": rng.random((size, 1, 1, 1), np.float32),
    }


def go_batch(size: int, board: int, rng: np.random.Generator) -> Batch:
    """Return Go positions with random stones and their best move, in float32.

    ``position`` (N, 17, board, board) has 8 pairs of planes, latest first (stones of the player to
    move, of the opponent), and a plane of ones if Black moves. ``policy`` (N, board² + 1) is the
    share of each move, passing last. ``value`` (N) is 1 if the player to move wins, else -1.
    """
    # Best is the empty point with most own neighbours, or passing; more stones win. There are no
    # captures: the history adds one stone after another.
    history = 8
    order = rng.permuted(np.tile(np.arange(board**2), (size, 1)), axis=1)
    stones = rng.integers(history, board**2 - board, size=(size, 1))
    own = rng.random((size, board**2)) < rng.uniform(0.3, 0.7, (size, 1))
    planes = np.zeros((size, 2 * history + 1, board**2), np.float32)
    for back in range(history):
        placed = order < stones - back
        planes[:, 2 * back] = placed & own
        planes[:, 2 * back + 1] = placed & ~own
    planes[:, -1] = rng.integers(2, size=(size, 1))
    mine, others = planes[:, 0], planes[:, 1]
    padded = np.pad(mine.reshape(size, board, board), ((0, 0), (1, 1), (1, 1)))
    beside = padded[:, 2:, 1:-1] + padded[:, :-2, 1:-1] + padded[:, 1:-1, 2:] + padded[:, 1:-1, :-2]
    weight = np.where(mine + others > 0, 0, beside.reshape(size, -1) ** 4).astype(np.float32)
    total = weight.sum(1, keepdims=True)
    policy = np.concatenate([weight / np.maximum(total, 1), total == 0], 1).astype(np.float32)
    ahead = mine.sum(1) > others.sum(1)
    return {
        "position": planes.reshape(size, -1, board, board),
        "policy": policy,
        "value": np.where(ahead, 1, -1).astype(np.float32),
    }
