"""Advice on recording more is given in the words of the profiler of the trace."""

from __future__ import annotations

import csv
import re

import pytest

from made_trace import MadeTrace
from tbd_trace import resources
from tbd_trace.query import prepare
from tbd_trace.why.processes import INPUTS, judgements
from tbd_trace.why.recording import action

OF_NVIDIA = re.compile(r"nsys|nvprof|NVTX", re.IGNORECASE)


def rows() -> list[dict[str, str]]:
    with (resources.data() / "recording_actions.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_each_profiler_has_each_action() -> None:
    by_tool: dict[str, set[str]] = {}
    for row in rows():
        by_tool.setdefault(row["tool"], set()).add(row["what"])
    assert by_tool.keys() == {"nsys", "nvprof", "torch"}
    assert len({frozenset(found) for found in by_tool.values()}) == 1
    assert not [row for row in rows() if row["tool"] == "torch" and OF_NVIDIA.search(row["action"])]


def test_a_profiler_that_the_table_lacks_has_the_actions_of_nsys() -> None:
    assert action("ncu", "launches") == action("nsys", "launches")


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["nsys", "torch"])
def test_what_is_not_known_names_the_tool_of_the_trace(tool: str) -> None:
    made = MadeTrace()
    made.add_trace(tool=tool)
    for at in range(0, 3_000_000, 1_000_000):  # without launching calls and steps
        made.add_kernel(at, at + 500_000)
    with made.connect() as database:
        prepare(database.connection, INPUTS)
        (one,) = judgements(database.connection)
    said = " ".join(one.not_known)
    assert action(tool, "launches") in said
    assert action(tool, "steps") in said
    assert bool(OF_NVIDIA.search(said)) == (tool == "nsys")
