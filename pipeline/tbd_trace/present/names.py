"""Shorten long names so that different names stay different."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tbd_trace.kernel_names import is_kernel_name, short_labels
from tbd_trace.present.values import width_of

# Shares of the width for the front of a name, in the order of trial.
_FRONTS = (2 / 3, 1 / 3, 0.5, 0.9, 0.1)
_LEAST_LABEL = 12  # narrower labels of kernels say less than the ends of the name


def shorten(name: str, width: int, front: float = _FRONTS[0]) -> str:
    """Shorten a name by removing its middle.

    Args:
        width: maximum width in terminal cells, at least 1.
        front: share of the width for the front of the name.
    """
    if width_of(name) <= width:
        return name
    # Names differ at both ends: paths begin with a directory and end in a file.
    front_width = int(max(0, width - 1) * front)
    back_width = max(0, width - 1) - front_width
    head, tail = name[:front_width], name[len(name) - back_width :]
    while width_of(head) > front_width:  # East Asian characters fill two cells
        head = head[:-1]
    while width_of(tail) > back_width:
        tail = tail[1:]
    return f"{head}…{tail}"


def shortened(names: Iterable[str], width: int) -> dict[str, str]:
    """Shorten names to ``width`` terminal cells so that different names stay different.

    Names of kernels keep what distinguishes kernels. Other names that differ only in the middle
    get a number.
    """
    left = dict.fromkeys(names)
    short_names = {name: name for name in left if width_of(name) <= width}
    used = set(short_names)
    kernels = [n for n in left if n.isascii() and n.isprintable() and is_kernel_name(n)]
    for name, label in short_labels(kernels, width).items() if width >= _LEAST_LABEL else ():
        if label not in used:
            short_names[name] = label
            used.add(label)
    for front in _FRONTS:
        cut = {name: shorten(name, width, front) for name in left if name not in short_names}
        counts = Counter(cut.values())
        unique = {name: short for name, short in cut.items() if counts[short] == 1}
        unique = {name: short for name, short in unique.items() if short not in used}
        short_names |= unique
        used.update(unique.values())
    number = 0
    for name in left:
        while name not in short_names:
            number += 1
            mark = f"#{number}"
            short = shorten(name, max(1, width - len(mark))) + mark
            if short not in used:
                short_names[name] = short
                used.add(short)
    return short_names


def label_of(name: str, width: int) -> str:
    """Shorten a single name as :func:`shortened`."""
    return shortened([name], width)[name]
