"""Read the details page from Nsight Compute's console output, which is aligned text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tbd_trace.sources.csv.text import Damage, Fields, Lines, Table, open_text

_COLUMNS = [
    "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream",
    "Block Size", "Grid Size", "Device", "CC",
    "Section Name", "Metric Name", "Metric Unit", "Metric Value",
]  # fmt: skip
_NO_METRIC = ["", "", "", ""]
_SIZE = r"\(\d+, ?\d+, ?\d+\)"

# Behind the kernel's name, older versions print a date, newer ones the grid and the block.
_PROCESS = re.compile(r"\s*\[(?P<pid>\d+)\] (?P<name>.+)@(?P<host>\S+)\s*")
_KERNEL = re.compile(
    r"\s+(?P<name>\S.*?)"
    rf"(?:, \d{{4}}-\w{{3}}-\d\d \d\d:\d\d:\d\d| (?P<grid>{_SIZE})x(?P<block>{_SIZE}))?"
    r", Context (?P<context>\d+), Stream (?P<stream>\d+)"
    r"(?:, Device (?P<device>\d+))?(?:, CC (?P<cc>[\d.]+))?\s*"
)
_SECTION = re.compile(r"\s*Section: (.+?)\s*")
_RULER = re.compile(r"\s*-{3,}(?: -{3,}){2}\s*")
_TITLES = "Metric Name"


def is_kernel(line: str) -> bool:
    """Return True if a line begins the results of a kernel."""
    return _KERNEL.fullmatch(line) is not None


def console_tables(path: Path, damage: Damage) -> Iterator[Table]:
    """Yield the console output as one table with the columns of the details page."""
    yield Table(_COLUMNS, [], [], _rows(path, damage))


@dataclass(slots=True)
class _State:
    kernels: int = 0  # number of kernels read so far
    process: Fields = field(default_factory=lambda: ["", "", ""])
    kernel: Fields = field(default_factory=list)
    section: str = ""
    columns: list[slice] | None = None  # of the metrics; None outside the rulers of a table

    def begin_kernel(self, match: re.Match[str]) -> Fields:
        fields = {name: text or "" for name, text in match.groupdict().items()}
        launch = [fields[name] for name in ("name", "context", "stream", "block", "grid")]
        self.kernel = [str(self.kernels), *self.process, *launch, fields["device"], fields["cc"]]
        self.kernels += 1
        return [*self.kernel, *_NO_METRIC]


def _rows(path: Path, damage: Damage) -> Iterator[Fields]:
    state = _State()
    with open_text(path) as file:
        lines = Lines(file)
        while (line := lines.take()) is not None:
            if kernel := _KERNEL.fullmatch(line):
                state.columns = None
                yield state.begin_kernel(kernel)
            elif process := _PROCESS.fullmatch(line):
                state.process = [process["pid"], process["name"], process["host"]]
            elif section := _SECTION.fullmatch(line):
                state.section, state.columns = section[1], None
            elif _RULER.fullmatch(line):
                state.columns = _after_ruler(line, lines, state)
            elif state.columns and state.kernel and line.strip():
                cells = [line[column].strip() for column in state.columns]
                if not _is_aligned(line, state.columns) or not cells[0]:
                    damage.skipped += 1
                elif not lines.unfinished:
                    yield [*state.kernel, state.section, *cells]
        # A complete table ends with a ruler.
        damage.ends_inside_row |= state.columns is not None


def _after_ruler(line: str, lines: Lines, state: _State) -> list[slice] | None:
    if state.columns is not None:
        return None
    # Newer versions print column titles and a second ruler above the rows.
    following = lines.peek()
    if following is not None and following.strip().startswith(_TITLES):
        lines.take()
        lines.take()
    spans = [match.span() for match in re.finditer(r"-+", line)]
    return [slice(begin, end) for begin, end in spans[:-1]] + [slice(spans[-1][0], None)]


def _is_aligned(line: str, columns: list[slice]) -> bool:
    # A line with text in the gaps between the columns is not a row: output of the program.
    return all(
        not line[column.start - 1].strip() for column in columns[1:] if len(line) >= column.start
    )
