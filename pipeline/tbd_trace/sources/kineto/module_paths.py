"""Name the calls of modules by their place in the model, from Python's frames."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

_PREFIX = "nn.Module: "
_NONE = -1
_DEEPEST = 1000  # nested calls; only a loop of callers is longer


class Frames:
    """The Python frames of a trace, each with the frame that called it."""

    # A trace has millions of frames, and few different names of modules.

    def __init__(self) -> None:
        self._ids: list[Any] = []
        self._parents: list[Any] = []
        self._names: dict[str, int] = {}
        self._modules: list[Any] = []  # rows of event, Python id and number of the name

    def add(self, columns: Mapping[str, Any]) -> None:
        """Add frames: columns ``event_id``, ``is_module``, ``name``, ``id`` and ``parent``."""
        ids = _integers(columns["id"])
        self._ids.append(_small(ids))
        self._parents.append(_small(_integers(columns["parent"])))
        rows = np.flatnonzero(np.ma.filled(columns["is_module"], False))
        names = [str(columns["name"][row]).removeprefix(_PREFIX) for row in rows]
        numbers = [self._names.setdefault(name, len(self._names)) for name in names]
        events = np.asarray(columns["event_id"])[rows]
        self._modules.append(np.array([events, ids[rows], numbers], np.int64))

    def paths(self) -> pa.Table:
        """Return ``event_id`` and ``path`` of the modules' calls, such as ``ResNet_0/Conv2d_1``."""
        parts = self._modules or [np.empty((3, 0), np.int64)]
        events, ids, numbers = np.concatenate(parts, axis=1)
        names = list(self._names)
        texts: dict[str, int] = {}
        own = [names[number] for number in numbers]
        path_numbers = [texts.setdefault(p, len(texts)) for p in _paths(self._outer(ids), ids, own)]
        path = pa.DictionaryArray.from_arrays(
            pa.array(path_numbers, pa.int32()), pa.array(list(texts), pa.string())
        )
        return pa.table([pa.array(events), path], names=["event_id", "path"])

    def _outer(self, modules: Any) -> Any:
        # Python id of the module around each module. Frames between them are skipped by doubling:
        # each step replaces a frame's ancestor by the ancestor of that ancestor.
        if not len(modules):
            return modules
        ids = np.concatenate(self._ids)
        order = np.argsort(ids, kind="stable")
        ids = ids[order]
        parents = np.concatenate(self._parents)[order]
        del order
        caller = _position(ids, parents)
        del parents
        caller[caller == np.arange(len(ids), dtype=np.int32)] = _NONE
        own = _position(ids, modules)
        # A module ends the search, and so does a frame without a known caller.
        above = caller.copy()
        above[own] = own
        for _ in range(int(np.ceil(np.log2(len(ids) + 1)))):
            following = np.where(above == _NONE, _NONE, above[above])
            if np.array_equal(following, above):
                break
            above = following
        around = caller[own]
        nearest = np.where(around == _NONE, _NONE, above[around])
        is_module = np.zeros(len(ids), bool)
        is_module[own] = True
        return np.where((nearest != _NONE) & is_module[nearest], ids[nearest], _NONE)


def _paths(outer: Any, ids: Any, names: list[str]) -> list[str]:
    # Path of each module's call. Ids repeat if the file does; the first call counts then.
    known: dict[int, int] = {}
    for row, number in enumerate(ids.tolist()):
        known.setdefault(number, row)
    around = [known.get(number) if number != _NONE else None for number in outer.tolist()]
    paths: list[str | None] = [None] * len(names)
    for row in range(len(names)):
        chain: list[int] = []
        current: int | None = row
        while current is not None and paths[current] is None and current not in chain[-_DEEPEST:]:
            chain.append(current)
            current = around[current]
        prefix = paths[current] if current is not None else None
        for inner in reversed(chain):
            prefix = f"{prefix}/{names[inner]}" if prefix else names[inner]
            paths[inner] = prefix
    return [path or "" for path in paths]


def _position(ids: Any, wanted: Any) -> Any:
    place = np.searchsorted(ids, wanted).astype(np.int32)
    place[place == len(ids)] = 0
    place[ids[place] != wanted] = _NONE
    return place


def _small(numbers: Any) -> Any:
    fits = not len(numbers) or (numbers.min() >= _NONE and numbers.max() < 1 << 31)
    return numbers.astype(np.int32) if fits else numbers


def _integers(column: Any) -> Any:
    return np.ma.filled(np.ma.asarray(column), _NONE).astype(np.int64)
