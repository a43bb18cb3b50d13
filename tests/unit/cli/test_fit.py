"""The command line of ``fit``: its arguments, and the answer as text and JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from typer.testing import CliRunner

from tbd_collectors.fit.fitting import AppliedPlan, Fit, Fitting, LargestBatch
from tbd_collectors.fit.memory_log import Allocation, MemoryLog
from tbd_collectors.fit.need import need
from tbd_collectors.fit.program_memory import ProgramMemory
from tbd_trace.cli.main import app

MIB = 1 << 20
REPORT = {
    "batch_size": 4,
    "batch_source": "the DataLoader",
    "model": "Net",
    "optimizer": "AdamW",
    "assumed_scalars": 2,
    "assumed_shapes": ["nonzero"],
    "is_compiled": False,
    "blocks": [],
}


def invoke(*words: str) -> Any:
    return CliRunner().invoke(app, ["fit", *words])


def made(limit: int | None, **fields: Any) -> Fit:
    allocations = {
        0: Allocation("weight", 10 * MIB, "h.0", "setup", None),
        1: Allocation("feature_map", 30 * MIB, "h.1", "forward", 0),
    }
    memory = ProgramMemory(MemoryLog(allocations, [(0, True), (1, True)]), REPORT)
    return Fit(memory, 4, need(memory.log, "cpu"), limit, **fields)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Fit]:
    """Answers of the next command, in place of runs."""
    answers: list[Fit] = []
    monkeypatch.setattr(Fitting, "answer", lambda _self, _batch: answers.pop())
    return answers


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((), "name the training command"),
        (("24GB",), "24GB: no training command; write it after --"),
        (("some card", "--", sys.executable, "x.py"), "GPU named 'some card' is unknown"),
        (("-1", "--", sys.executable, "x.py"), "no such option"),
        (("0", "--", sys.executable, "x.py"), "LIMIT '0': write the memory in GB, such as 11"),
        (("--gpus", "8", "--", sys.executable), "--gpus N and --shard SCHEME need each other"),
        (("--shard", "zero2", "--", sys.executable), "--gpus N and --shard SCHEME need each"),
        (("8", "--", sys.executable, "--bs", "{batch}"), "{batch} in the command needs"),
    ],
)
def test_wrong_requests_run_nothing(words: tuple[str, ...], reason: str) -> None:
    done = invoke(*words)
    assert done.exit_code == 2
    assert reason in done.output + done.stderr


def test_a_missing_program_is_one_line() -> None:
    done = invoke("8", "--", "no-such-program", "x.py")
    assert done.exit_code == 127
    assert "no-such-program: cannot be run" in done.stderr


def test_a_batch_that_fits(asked: list[Fit]) -> None:
    largest = LargestBatch(9, {9: 50 * MIB, 10: 52 * MIB}, is_predicted=True)
    asked.append(made(51 * MIB, largest=largest))
    done = invoke("51MB", "--device", "cpu", "--", sys.executable, "x.py")
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "fits 51MB: batch 4 needs 40 MiB, 11 MiB are spare"
    assert [line.split() for line in lines[2:5]] == [
        ["at", "the", "peak", "bytes"],
        ["feature", "maps", f"{30 * MIB:,}"],
        ["weights", f"{10 * MIB:,}"],
    ]
    assert "largest batch that fits: 9 (9 needs 50 MiB, 10 needs 52 MiB)" in lines
    assert "assumed: shapes of nonzero depend on values: all elements are selected" in lines


def test_a_batch_that_does_not_fit(asked: list[Fit]) -> None:
    smaller = need(MemoryLog({}, []), "cpu")
    plan = AppliedPlan(("h.0", "h.1"), 5_000_000, 0, smaller, fits=True, is_cheapest=True)
    asked.append(made(39 * MIB, plan=plan))
    done = invoke("39MB", "--device", "cpu", "--", sys.executable, "x.py")
    assert done.exit_code == 12
    assert done.stdout.startswith("does not fit 39MB: batch 4 needs 40 MiB, 1 MiB too much\n")
    assert "checkpoint 2 layers, the cheapest way to fit: h.0, h.1\n" in done.stdout
    assert "then the batch needs 0 byte, and 5 MFLOP more per iteration\n" in done.stdout


def test_the_answer_as_json(asked: list[Fit]) -> None:
    asked.append(made(None))
    done = invoke("--format", "json", "--", sys.executable, "x.py")
    assert done.exit_code == 0
    document = json.loads(done.stdout)
    assert document["peak_bytes"] == 40 * MIB
    assert document["class_bytes"] == {"feature_map": 30 * MIB, "weight": 10 * MIB}
    assert document["layer_bytes"]["h.1"] == {"feature_map": 30 * MIB}
    assert document["fits"] is document["limit_bytes"] is document["largest_batch"] is None
    assert document["evidence"] == "estimated"
