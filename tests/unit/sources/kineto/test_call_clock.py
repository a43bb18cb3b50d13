"""Calls of HIP in another clock than the operators that made them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tbd_trace
from fast import one_in
from made_kineto import document, kernel, launch, operator, write

Event = dict[str, Any]


def made(shift: float, name: str = "hipLaunchKernel") -> list[Event]:
    """Three operators of 8 µs, each with a launch of 2 µs that begins 1 µs after it, shifted."""
    events = []
    for number in range(3):
        start = 100 + 20 * number
        call = launch(start + 1 + shift, number + 1, name)
        call["args"]["External id"] = number + 1
        events += [operator(f"aten::op{number}", start, 8), call]
        events[-2]["args"]["External id"] = number + 1
        events.append(kernel(start + 50, 10 * (number + 1), number + 1))
    return events


def answer(folder: Path, events: list[Event]) -> tuple[dict[str, int], list[Any], str]:
    session = tbd_trace.open(write(folder / "t.json", document(events)))
    calls = session.sql("SELECT start_ns, end_ns FROM api_call ORDER BY api_call_id").rows()
    (notes,) = session.sql("SELECT notes FROM trace").rows()
    gpu = {row["op"]: row["gpu_ns"] for row in session.query("op_summary").to_dicts()}
    return gpu, calls, str(notes)


@pytest.mark.parametrize("shift", one_in(4, [-3.0, -40.0, 12.0, 6.5]))
def test_a_call_belongs_to_the_operator_that_its_external_id_names(
    shift: float, tmp_path: Path
) -> None:
    gpu, calls, notes = answer(tmp_path, made(shift))
    assert gpu == {"aten::op0": 10_000, "aten::op1": 20_000, "aten::op2": 30_000}
    assert calls == [(start, start + 2000) for start in (100_000, 120_000, 140_000)]
    assert "not inside the operators that made them: 3, usually by" in notes


@pytest.mark.slow
def test_calls_inside_their_operators_stay(tmp_path: Path) -> None:
    _, calls, notes = answer(tmp_path, made(0))
    assert calls == [(start, start + 2000) for start in (101_000, 121_000, 141_000)]
    assert "operators that made them" not in notes


@pytest.mark.slow
def test_calls_of_cuda_stay(tmp_path: Path) -> None:
    _, calls, notes = answer(tmp_path, made(-3.0, "cudaLaunchKernel"))
    assert calls == [(start, start + 2000) for start in (98_000, 118_000, 138_000)]
    assert "operators that made them" not in notes
