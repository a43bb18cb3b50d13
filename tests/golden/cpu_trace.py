"""A small training run without a GPU: what it marked, made to order.

Seven iterations of 1 ms on one process. The main thread runs the forward pass, the loss and the
optimizer; while it waits in `phase:backward`, autograd's thread runs the backward pass. A layer may
hold others, and `encoder.mlp` has two backward ranges in every iteration.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import NamedTuple

PID, AUTOGRAD_TID = 5150, 5151
BATCH_SIZE = 4
PAUSE_US = 10  # between two iterations
# What the forward pass of encoder.mlp takes longer than usual: long at first, then 0 to 4 µs.
DELAYS_US = [300, 2, 0, 4, 0, 2, 4]
LAYERS = {
    "encoder": "Transformer",
    "encoder.attention": "Attention",
    "encoder.mlp": "Linear",
    "head": "Linear",
}

# One iteration, µs after its start: what the delay moves begins after MOVES_US.
MOVES_US = 300
MAIN = [
    ("phase:data", 0, 100),
    ("phase:forward", 100, 500),
    ("layer:encoder", 110, 400),
    ("layer:encoder.attention", 150, 250),
    ("layer:encoder.mlp", 260, 380),
    ("layer:head", 410, 490),
    ("phase:loss", 500, 540),
    ("phase:backward", 540, 900),
    ("phase:optimizer", 900, 990),
]
AUTOGRAD = [
    ("layer_backward:head", 550, 600),
    ("layer_backward:encoder.mlp", 610, 680),
    ("layer_backward:encoder.mlp", 690, 700),
    ("layer_backward:encoder.attention", 705, 800),
    ("layer_backward:encoder", 800, 880),
    ("layer_backward:encoder.attention", 820, 830),
]


class Marked(NamedTuple):
    """A push/pop range, times in ns."""

    text: str
    start: int
    end: int
    tid: int


@cache
def iterations() -> list[Marked]:
    found, start = [], 5_000_000
    for number, delay in enumerate(DELAYS_US):
        end = start + (1000 + delay) * 1000
        found.append(Marked(f"iteration {number}", start, end, PID))
        start = end + PAUSE_US * 1000
    return found


@cache
def ranges() -> list[Marked]:
    """Return every range but the iterations'."""
    found = []
    for iteration, delay in zip(iterations(), DELAYS_US, strict=True):
        for tid, made in ((PID, MAIN), (AUTOGRAD_TID, AUTOGRAD)):
            for text, *times in made:
                start, end = (
                    iteration.start + (us + (delay if us > MOVES_US else 0)) * 1000 for us in times
                )
                found.append(Marked(text, start, end, tid))
    return found


def periods() -> list[int]:
    """Return the times from start to start; the last ends with its range.

    The pause is 1 % of a period, so that the next iteration would begin there, but for the pause.
    """
    starts = [b.start - a.start for a, b in pairwise(iterations())]
    return [*starts, iterations()[-1].end - iterations()[-1].start]
