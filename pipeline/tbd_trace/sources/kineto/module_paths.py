"""Name the calls of modules by their place in the model, from Python's frames."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

_PREFIX = "nn.Module: "
_NONE = -1


class Frames:
    """The Python frames of a trace, each with the frame that called it."""

    def __init__(self) -> None:
        self._ids: list[Any] = []
        self._parents: list[Any] = []
        self._modules: dict[int, list[tuple[int, str]]] = {}  # events and names by Python id

    def add(self, columns: Mapping[str, Any]) -> None:
        """Add frames: columns ``event_id``, ``is_module``, ``name``, ``id`` and ``parent``."""
        ids = _integers(columns["id"])
        self._ids.append(ids)
        self._parents.append(_integers(columns["parent"]))
        for row in np.flatnonzero(np.ma.filled(columns["is_module"], False)):
            name = str(columns["name"][row]).removeprefix(_PREFIX)
            event = int(columns["event_id"][row])
            self._modules.setdefault(int(ids[row]), []).append((event, name))

    def paths(self) -> pa.Table:
        """Return ``event_id`` and ``path`` of the modules' calls, such as ``ResNet_0/Conv2d_1``."""
        above = self._modules_above()
        paths: dict[int, str] = {}
        events, texts = [], []
        for module, calls in self._modules.items():
            for event, name in calls:
                prefix = _path(module, above, self._modules, paths)
                events.append(event)
                texts.append(f"{prefix}/{name}" if prefix else name)
        columns = [pa.array(events, pa.int64()), pa.array(texts, pa.string())]
        return pa.table(columns, names=["event_id", "path"])

    def _modules_above(self) -> dict[int, int]:
        # The nearest enclosing module of each module, by Python id. Frames between them are skipped
        # by doubling: each step replaces a frame's ancestor by the ancestor of that ancestor.
        if not self._modules:
            return {}
        ids = np.concatenate(self._ids)
        ids, first = np.unique(ids, return_index=True)
        parents = np.concatenate(self._parents)[first]
        modules = np.fromiter(self._modules, np.int64)
        place = np.searchsorted(ids, parents)
        place[place == len(ids)] = 0
        known = ids[place] == parents
        itself = np.arange(len(ids))
        is_module = np.isin(ids, modules)
        # A frame without a known parent ends the search, as does a module.
        direct = np.where(known & (place != itself), place, _NONE)
        above = np.where(is_module, itself, direct)
        for _ in range(int(np.ceil(np.log2(len(ids) + 1)))):
            above = np.where(above == _NONE, _NONE, above[above])
        at = np.searchsorted(ids, modules)
        callers = direct[at]
        nearest = np.where(callers == _NONE, _NONE, above[callers])
        return {
            int(module): int(ids[place])
            for module, place in zip(modules, nearest, strict=True)
            if place != _NONE and is_module[place]
        }


def _path(
    module: int,
    above: Mapping[int, int],
    modules: Mapping[int, list[tuple[int, str]]],
    paths: dict[int, str],
) -> str:
    # Path of the modules around one, outermost first.
    chain = [module]
    while chain[-1] not in paths and chain[-1] in above and above[chain[-1]] not in chain:
        chain.append(above[chain[-1]])
    paths.setdefault(chain[-1], "")
    for inner, outer in zip(reversed(chain[:-1]), reversed(chain[1:]), strict=True):
        name = modules[outer][0][1]
        paths[inner] = f"{paths[outer]}/{name}" if paths[outer] else name
    return paths[module]


def _integers(column: Any) -> Any:
    return np.ma.filled(np.ma.asarray(column), _NONE).astype(np.int64)
