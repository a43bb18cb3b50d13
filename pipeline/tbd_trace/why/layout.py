"""Lay out the screen of a verdict: rows of shares, and labelled sentences."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

WIDTH = 80
MOST_WIDTH = 120
LEAST_PCT = 1.0  # of a row that is listed by itself
PARTS_SHOWN = 3
_LABEL = 12


def percent(share: float) -> str:
    """Format a share."""
    return f"{share:.1f} %"


def rows_of_shares(rows: Sequence[tuple[str, float, str, str]], width: int = WIDTH) -> list[str]:
    """Format rows of amount, share in percent, title and evidence, wrapped to the width."""
    column = max((len(title) for _, _, title, _ in rows), default=0)
    lines: list[str] = []
    for amount, share, title, evidence in rows:
        start = f"{amount}  {percent(share):>7}  {title:{column}}  "
        lines += textwrap.wrap(
            start + evidence,
            width,
            subsequent_indent=" " * len(start),
            break_long_words=False,
            break_on_hyphens=False,
        )
    return lines


def labelled(
    label: str, entries: Sequence[str], width: int = WIDTH, label_width: int = _LABEL
) -> list[str]:
    """Wrap entries into lines, the first of which begins with the label."""
    lines = []
    for entry in entries:
        lines += textwrap.wrap(
            entry, width - label_width, break_long_words=False, break_on_hyphens=False
        )
    names = [label] + [""] * len(lines)
    return [f"{name:{label_width}}{line}" for name, line in zip(names, lines, strict=False)]


def closer(files: Sequence[str], commands: Sequence[str], width: int = WIDTH) -> list[str]:
    """Name the commands that show more about some files."""
    arguments = " ".join(files)
    more = [f"tbd-trace report {arguments}", f"tbd-trace why {arguments} --all"] if files else []
    return labelled("Look closer", [*more, *commands], width=width)
