"""Write texts as a row of a Markdown table in GitHub's dialect."""

from __future__ import annotations

import re
from collections.abc import Iterable

# Kernel names contain <, > and *. An underscore is special only at the edge of a word.
_SPECIAL = re.compile(r"[\\|<>*`\[\]]|(?<!\w)_|_(?!\w)")


def row(cells: Iterable[str]) -> str:
    """Format texts as a row of a table, with Markdown's special characters escaped."""
    escaped = [_SPECIAL.sub(r"\\\g<0>", cell) for cell in cells]
    return f"| {' | '.join(escaped)} |"
