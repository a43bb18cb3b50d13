"""The calls and GPU operations of a process, a column each."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy.typing as npt


@dataclass(slots=True)
class Calls:
    """CUDA calls in order of start; -1 stands for no call or operation."""

    thread: array[int]
    name: list[str]
    kind: list[str]
    start: array[int]
    end: array[int]
    waited: array[int]
    think: array[int]
    awaited: array[int]
    tail: array[int]


@dataclass(slots=True)
class Ops:
    """GPU operations in order of start; -1 stands for no call or operation."""

    device: array[int]
    kind: list[str]
    name: list[str]
    bytes: array[int]
    start: array[int]
    end: array[int]
    previous: array[int]
    call: array[int]
    awaited: array[int]
    lag: array[int]
    cause: list[str]
    precision: list[str]
    is_update: list[bool]
    is_pageable: list[bool]


def integers(values: npt.ArrayLike) -> array[int]:
    """Return integers in 8 bytes each; their elements are fast to read, unlike NumPy's."""
    import numpy as np  # noqa: PLC0415 - its import takes time

    return array("q", np.asarray(values, dtype=np.int64).tobytes())
