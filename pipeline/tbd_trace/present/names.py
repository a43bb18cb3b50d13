"""Long names in little room: cut in the middle, and different names stay different."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tbd_trace.present.values import width_of

# Parts of the room for the front of a name, in the order in which they are tried.
_FRONTS = (2 / 3, 1 / 3, 0.5, 0.9, 0.1)


def shorten(name: str, width: int, front: float = _FRONTS[0]) -> str:
    """Return a name in at most ``width`` cells of a terminal (at least 1), its middle left out.

    Kernel names differ at both ends: the function in front, its template arguments behind.

    Args:
        name: the name.
        width: cells that there are.
        front: part of them that the front of the name gets.
    """
    if width_of(name) <= width:
        return name
    front_width = int(max(0, width - 1) * front)
    back_width = max(0, width - 1) - front_width
    head, tail = name[:front_width], name[len(name) - back_width :]
    while width_of(head) > front_width:  # characters that fill two cells
        head = head[:-1]
    while width_of(tail) > back_width:
        tail = tail[1:]
    return f"{head}…{tail}"


def shortened(names: Iterable[str], width: int) -> dict[str, str]:
    """Return names shortened to ``width`` cells so that different ones stay different.

    Those that differ in the middle alone are numbered.
    """
    left = dict.fromkeys(names)
    found = {name: name for name in left if width_of(name) <= width}
    taken = set(found)
    for front in _FRONTS:
        cut = {name: shorten(name, width, front) for name in left if name not in found}
        alike = Counter(cut.values())
        alone = {name: short for name, short in cut.items() if alike[short] == 1}
        alone = {name: short for name, short in alone.items() if short not in taken}
        found |= alone
        taken.update(alone.values())
    number = 0
    for name in left:
        while name not in found:
            number += 1
            mark = f"#{number}"
            short = shorten(name, max(1, width - len(mark))) + mark
            if short not in taken:
                found[name] = short
                taken.add(short)
    return found
