"""Shorten kernel names to the parts that distinguish kernels."""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import and_

from tbd_trace.kernel_names.parts import LEAST_SHOWN, Part, parts_of

__all__ = ["is_kernel_name", "short_labels"]

_IS_KERNEL = re.compile(r"[<(]|::|^_Z|(?:[^_/]+_){3}")
_DIFFERENCE = 4  # importance added where names of the same label differ


def is_kernel_name(name: str) -> bool:
    """Return True if a name has the form of a C++ function or of a generated kernel."""
    return _IS_KERNEL.search(name) is not None


def short_labels(names: Iterable[str], width: int) -> dict[str, str]:
    """Shorten kernel names to at most ``width`` characters, so that different names stay different.

    The label of a name is always the same, unless another of the names would have it, too. Such
    names show where they differ; if that does not fit, they end in a tilde and a hash.

    Args:
        names: demangled or mangled names.
        width: at least 8.
    """
    labels = {name: name for name in names}
    parts = {name: parts_of(name) for name in labels if len(name) > width}
    labels |= {name: _fitted(some, width) for name, some in parts.items()}
    for alike in _alike(labels):
        long = {name: parts[name] for name in alike if name in parts}
        labels |= {name: _fitted(some, width) for name, some in _distinguished(long).items()}
    for digits in (4, 8):
        for alike in _alike(labels):
            for name in filter(parts.__contains__, alike):
                hashed = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:digits]
                labels[name] = f"{_fitted(parts[name], width - digits - 1)}~{hashed}"[-width:]
    return labels


def _alike(labels: Mapping[str, str]) -> list[list[str]]:
    names = defaultdict(list)
    for name, label in labels.items():
        names[label].append(name)
    return [group for group in names.values() if len(group) > 1]


def _distinguished(parts: Mapping[str, Sequence[Part]]) -> dict[str, list[Part]]:
    # Raises the importance of parts that not all of the names have equally often.
    counts = {name: Counter(part.text for part in some) for name, some in parts.items()}
    everywhere = reduce(and_, counts.values()) if counts else Counter()
    raised: dict[str, list[Part]] = {}
    for name, some in parts.items():
        seen: Counter[str] = Counter()
        raised[name] = []
        for part in some:
            seen[part.text] += 1
            more = _DIFFERENCE if seen[part.text] > everywhere[part.text] else 0
            raised[name].append(replace(part, importance=part.importance + more))
    return raised


def _fitted(parts: Sequence[Part], width: int) -> str:
    # The most important parts that fit, in the order of the name.
    kept: set[int] = set()
    words: set[int] = set()
    left, is_open = width, False
    for number in sorted(range(len(parts)), key=lambda n: (-parts[n].importance, n)):
        part = parts[number]
        if part.importance < LEAST_SHOWN and kept:
            break
        is_argument = part.before == ", "
        joint = part.between if part.word in words else part.before
        needed = len(part.text) + (2 if is_argument and not is_open else len(joint) if kept else 0)
        if needed > left and not kept:
            return part.text[: width - 1] + "…"
        if needed <= left:
            kept.add(number)
            words.add(part.word)
            left -= needed
            is_open = is_open or is_argument
    return _joined([part for number, part in enumerate(parts) if number in kept])


def _joined(parts: Sequence[Part]) -> str:
    text, word, is_open = "", -1, False
    for part in parts:
        if part.word == word:
            text += part.between
        elif part.before == ", ":
            text += ", " if is_open else "<"
            is_open = True
        elif text:
            text += part.before
        text += part.text
        word = part.word
    return text + ">" * is_open
