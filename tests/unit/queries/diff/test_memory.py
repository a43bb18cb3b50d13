"""diff: peaks and classes of two memory logs or snapshots, worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from made_memory import alloc, block, entry, free, segment, snapshot, write_log, write_pickle
from made_nsys import profile, write
from one_comparison import compare_once
from tbd_trace.cli.main import app

MIB = 2**20


def compared(a: Path, b: Path) -> dict[str, Any]:
    result = CliRunner().invoke(app, ["diff", str(a), str(b), "--format", "json"])
    assert result.exit_code == 0, result.output
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


def rows(answer: dict[str, Any]) -> dict[str, tuple[Any, ...]]:
    columns = ("a_bytes", "b_bytes", "change_bytes", "change_pct")
    return {row["measure"]: tuple(row[name] for name in columns) for row in answer["memory"]}


@pytest.fixture
def logs(elsewhere: Path) -> tuple[Path, Path]:
    """Peaks of 4000 bytes (event 2) and 5000 bytes (event 3)."""
    a = [
        alloc(1, 1, 1000, "weight"),
        alloc(2, 2, 3000, "feature_map"),
        free(3, 2, 3000),
        alloc(4, 3, 2500, "weight_gradient"),
    ]
    b = [
        alloc(1, 1, 1000, "weight"),
        alloc(2, 2, 3400, "feature_map"),
        alloc(3, 3, 600, "workspace"),
        free(4, 3, 600),
        free(5, 2, 3400),
    ]
    return write_log(elsewhere / "a.jsonl", a), write_log(elsewhere / "b.jsonl", b)


@pytest.mark.slow
def test_peaks_and_classes_at_the_peak(logs: tuple[Path, Path]) -> None:
    answer = compared(*logs)
    assert rows(answer) == {
        "peak requested": (4000, 5000, 1000, 25.0),
        "feature_map": (3000, 3400, 400, pytest.approx(40 / 3)),
        "weight": (1000, 1000, 0, 0.0),
        "workspace": (0, 600, 600, None),
    }
    assert [row["measure"] for row in answer["memory"]] == list(rows(answer))
    verdict = answer["verdict"]
    assert verdict["word"] == "not comparable"
    assert verdict["sentence"].endswith(
        " The memory peak is 4.883 KiB in B and 3.906 KiB in A (+25.00 %)."
    )


@pytest.mark.slow
def test_it_is_a_part_of_every_form(
    logs: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    compare_once(monkeypatch)
    a, b = map(str, logs)
    text = CliRunner().invoke(app, ["diff", a, b]).stdout
    assert "Memory of two runs" in text
    assert "(+25.00 %)" in text
    csv_rows = CliRunner().invoke(app, ["diff", a, b, "--format", "csv"]).stdout.splitlines()
    assert [line for line in csv_rows if "peak requested" in line and "memory," in line]
    assert CliRunner().invoke(app, ["diff", a, b, "-o", "page.html"]).exit_code == 0
    page = Path("page.html").read_text()
    assert "Memory of two runs" in page
    assert "Memory at the peak" in page


@pytest.mark.slow
def test_unknown_bytes_leave_absent_classes_unknown(elsewhere: Path) -> None:
    a = write_log(elsewhere / "a.jsonl", [alloc(1, 1, 800, "weight"), alloc(2, 2, 200)])
    b = write_log(elsewhere / "b.jsonl", [alloc(1, 1, 800, "weight"), alloc(2, 2, 100, "buffer")])
    assert rows(compared(a, b)) == {
        "peak requested": (1000, 900, -100, -10.0),
        "weight": (800, 800, 0, 0.0),
        "unknown": (200, 0, -200, -100.0),
        "buffer": (None, 100, None, None),
    }


@pytest.mark.slow
def test_reserved_bytes_are_those_of_segments(elsewhere: Path) -> None:
    def made(name: str, *sizes: int) -> Path:
        segments = [segment(MIB * 64 * n, [block(size, size)]) for n, size in enumerate(sizes, 1)]
        events = [
            entry(action, MIB * 64 * n, size, n)
            for n, size in enumerate(sizes, 1)
            for action in ("segment_alloc", "alloc")
        ]
        return write_pickle(elsewhere / name, snapshot(segments, events))

    answer = compared(made("a.pickle", 2 * MIB), made("b.pickle", 2 * MIB, MIB))
    assert rows(answer)["peak reserved"] == (2 * MIB, 3 * MIB, MIB, 50.0)
    assert rows(answer)["unknown"] == (2 * MIB, 3 * MIB, MIB, 50.0)


@pytest.mark.slow
def test_classes_of_other_evidence_are_not_compared(elsewhere: Path) -> None:
    log = write_log(elsewhere / "a.jsonl", [alloc(1, 64, 512, "weight")], allocator="torch")
    frames = [{"filename": "loop.py", "line": 1, "name": "nccl:all_reduce"}]
    events = [entry("alloc", 4096, 512, 1, frames=frames)]
    made = snapshot([segment(4096, [block(512, 512)])], events)
    answer = compared(log, write_pickle(elsewhere / "b.pickle", made))
    shown = rows(answer)
    assert shown.pop("peak requested") == (512, 512, 0, 0.0)
    # The log's reserved bytes are modelled, with PyTorch's smallest segment.
    reserved = next(row for row in answer["memory"] if row["measure"] == "peak reserved")
    assert (reserved["a_bytes"], reserved["evidence_a"]) == (2 * MIB, "modelled")
    assert shown["weight"] == (512, None, None, None)
    assert all(change is None for _, _, change, _ in shown.values())


@pytest.mark.slow
def test_an_estimate_is_not_compared_with_a_measurement(elsewhere: Path) -> None:
    events = [alloc(1, 1, 800, "weight")]
    measured = write_log(elsewhere / "a.jsonl", events)
    answer = compared(measured, write_log(elsewhere / "b.jsonl", events, estimated=True))
    peak, *_ = answer["memory"]
    assert (peak["evidence_a"], peak["evidence_b"]) == ("measured", "estimated")
    assert (peak["a_bytes"], peak["b_bytes"], peak["change_bytes"]) == (800, 800, None)
    assert answer["verdict"]["sentence"].endswith("is 800 byte in B and 800 byte in A.")


@pytest.mark.slow
def test_devices_are_compared_one_by_one(elsewhere: Path) -> None:
    def made(name: str, first: int, second: int) -> Path:
        histories = [[entry("alloc", 4096, size, 1)] for size in (first, second)]
        return write_pickle(elsewhere / name, snapshot([], *histories))

    answer = compared(made("a.pickle", 100, 300), made("b.pickle", 150, 270))
    peaks = [row for row in answer["memory"] if row["measure"] == "peak requested"]
    assert [(r["rank"], r["a_bytes"], r["b_bytes"]) for r in peaks] == [
        (0, 100, 150),
        (1, 300, 270),
    ]
    assert answer["verdict"]["sentence"].endswith(
        " The highest of 2 memory peaks is 270 byte in B and 300 byte in A (-10.00 %)."
    )


@pytest.mark.slow
def test_memory_of_one_side_is_not_compared(
    elsewhere: Path, logs: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    compare_once(monkeypatch)
    tables = profile()
    del tables["CUDA_GPU_MEMORY_USAGE_EVENTS"]
    timeline = write(elsewhere / "made.sqlite", tables)
    answer = compared(timeline, logs[1])
    assert answer["memory"] == []
    assert "memory peak" not in answer["verdict"]["sentence"]
    text = CliRunner().invoke(app, ["diff", str(timeline), str(logs[1])]).stdout
    assert "Memory of two runs" not in text


@pytest.mark.slow
def test_a_log_with_itself_has_no_change(logs: tuple[Path, Path]) -> None:
    answer = compared(logs[0], logs[0])
    assert {row["change_bytes"] for row in answer["memory"] if row["change_bytes"] is not None} == {
        0
    }
    assert "there is no difference to find" in answer["verdict"]["sentence"]


@pytest.mark.slow
def test_lines_that_hold_more_or_fewer_bytes(elsewhere: Path) -> None:
    """Layer conv holds 600 bytes more, act is new, head is equal, and one has no layer."""
    a = [
        alloc(1, 1, 1000, "weight", layer="head"),
        alloc(2, 2, 3000, "feature_map", layer="conv"),
        alloc(3, 3, 5, "input"),
    ]
    b = [
        alloc(1, 1, 1000, "weight", layer="head"),
        alloc(2, 2, 3600, "feature_map", layer="conv"),
        alloc(3, 3, 50, "feature_map", layer="act"),
        alloc(4, 4, 50, "feature_map", layer="act"),
    ]
    paths = write_log(elsewhere / "a.jsonl", a), write_log(elsewhere / "b.jsonl", b)
    columns = ("class", "line", "a_bytes", "b_bytes", "change_bytes", "b_allocations")
    found = [tuple(row[name] for name in columns) for row in compared(*paths)["memory_lines"]]
    assert found == [
        ("feature_map", "conv", 3000, 3600, 600, 1),
        ("feature_map", "act", 0, 100, 100, 2),
    ]


@pytest.mark.slow
def test_a_side_without_lines_is_not_compared_by_line(elsewhere: Path) -> None:
    a = write_log(elsewhere / "a.jsonl", [alloc(1, 1, 1000, "weight", layer="head")])
    b = write_log(elsewhere / "b.jsonl", [alloc(1, 1, 1000, "weight")])
    assert compared(a, b)["memory_lines"] == []
