"""Write the table of verdicts as Markdown and CSV."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

PASSED, FAILED, IMPOSSIBLE, OPEN = "pass", "FAIL", "not possible", "not run"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A row of the table."""

    step: str
    what: str
    expected: str
    measured: str
    verdict: str  # one of the above
    remark: str = ""

    def as_dict(self) -> dict[str, str]:
        """Return the fields by name."""
        return asdict(self)

    def line(self) -> str:
        """Return the verdict as a line for the terminal."""
        remark = f" ({self.remark})" if self.remark else ""
        return f"{self.verdict}: {self.what}: {self.measured}, expected {self.expected}{remark}"


def text(value: Any) -> str:
    """Return a value with at most five significant digits, for a cell."""
    if isinstance(value, float):
        return f"{value:.5g}" if abs(value) < 1e5 else f"{value:.0f}"
    if isinstance(value, (list, tuple)):
        return " \N{EN DASH} ".join(map(text, value))
    return str(value)


def write(directory: Path, verdicts: Sequence[Verdict]) -> None:
    """Write verdicts.md and verdicts.csv, each complete or not at all."""
    names = [field.name for field in fields(Verdict)]
    rows = [[getattr(verdict, name) for name in names] for verdict in verdicts]
    lines = [names, ["---"] * len(names), *([_escaped(cell) for cell in row] for row in rows)]
    markdown = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    replace(directory / "verdicts.md", f"{counts(verdicts)}\n\n{markdown}")
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows([names, *rows])
    replace(directory / "verdicts.csv", buffer.getvalue())


def counts(verdicts: Sequence[Verdict]) -> str:
    """Return the number of verdicts of each kind, as a sentence."""
    kinds = [verdict.verdict for verdict in verdicts]
    return ", ".join(f"{kinds.count(kind)} {kind}" for kind in (PASSED, FAILED, IMPOSSIBLE, OPEN))


def replace(path: Path, content: str) -> None:
    """Write a file beside, then rename it."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(content, encoding="utf-8")
    beside.replace(path)


def _escaped(cell: str) -> str:
    return " ".join(cell.replace("|", "\\|").split())
