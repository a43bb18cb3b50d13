"""Collecting with an nvprof that is a stand-in: which files a capture lists, and what it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from made_nvprof import call, host, kernel, make
from tbd_collectors.collect import Result, collect
from tbd_collectors.collection_request import Command, Profiling
from tbd_collectors.process import NothingRecordedError
from tbd_trace.store import Database

FORBIDDEN = "==9== Warning: ERR_NVGPUCTRPERM - The user does not have permission"


@pytest.fixture
def profiles(tmp_path: Path) -> Path:
    """Return a directory with what nvprof writes on a GPU: a timeline, and counters."""
    folder = tmp_path / "profiles"
    folder.mkdir()
    marker = {"flags": 2, "timestamp": 900_000, "id": 1, "name": 1, "domain": 0, **host()}
    timeline = {"CONCURRENT_KERNEL": [kernel()], "RUNTIME": [call(211, 7)], "MARKER": [marker]}
    make(folder / "timeline", ["step"], timeline)
    counted = {"id": 20971638, "correlationId": 7, "flags": 0, "value": bytes(8)}
    make(folder / "counters", ["step"], {"KERNEL": [kernel()], "METRIC": [counted]})
    return folder


def collected(directory: Path, profiles: Path, monkeypatch: pytest.MonkeyPatch, end: str) -> Result:
    """Collect with an nvprof that copies the profiles; ``end`` is what it does when it counts."""
    (directory / "bin").mkdir()
    program = directory / "bin" / "nvprof"
    program.write_text(
        f"""#!/bin/sh
        kind=timeline
        while [ $# -gt 0 ]; do
            case "$1" in
                --version) echo "Release version 11.8.87 (21)"; exit;;
                --metrics) kind=counters;;
                --export-profile) output="$2";;
            esac
            shift
        done
        [ $kind = timeline ] || {{ {end}; }}
        cp "{profiles}/$kind" "$output"
        """,
        encoding="utf-8",
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    target = Command(("true",), device="cuda")
    profiling = Profiling(timeline="nvprof")
    return collect(target, profiling, directory / "capture", compute_capability="6.1")


def listed(result: Result) -> list[tuple[Any, ...]]:
    document = json.loads((result.capture / "capture.json").read_text(encoding="utf-8"))
    return [tuple(entry.values()) for entry in document["files"]]


@pytest.mark.slow
def test_counters_are_kept_with_their_launch_configurations(
    tmp_path: Path, profiles: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = collected(tmp_path, profiles, monkeypatch, "true")
    assert (result.status, result.notes) == ("ok", [])
    assert listed(result) == [
        ("timeline.nvvp", "timeline", "nvprof", "11.8.87"),
        ("counters.nvvp", "metrics", "nvprof", "11.8.87"),
    ]
    assert not list(result.capture.glob("*.csv"))
    ingested = Database(tmp_path / "x.duckdb").ingest([result.capture])
    assert len(ingested) == 2


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (f'echo "{FORBIDDEN}"; seq 100; exit', "ERR_NVGPUCTRPERM"),
        ("exit", "nvprof wrote no counters.nvvp (its output: nothing)"),
        ("kind=timeline", "counters.nvvp: nvprof counted no kernels"),
    ],
)
def test_a_timeline_is_kept_without_counters(
    end: str, words: str, tmp_path: Path, profiles: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = collected(tmp_path, profiles, monkeypatch, end)
    assert result.status == "ok"
    (note,) = result.notes
    assert note.startswith("no hardware counters, so ")
    assert words in note
    assert listed(result) == [("timeline.nvvp", "timeline", "nvprof", "11.8.87")]
    assert not (result.capture / "counters.nvvp").exists()


def test_a_timeline_with_nothing_in_it_is_no_capture(
    tmp_path: Path, profiles: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(profiles / "empty", ["k"], {"CONCURRENT_KERNEL": []})
    (profiles / "empty").replace(profiles / "timeline")
    with pytest.raises(NothingRecordedError, match=r"^timeline.nvvp: holds no NVTX ranges: no tr"):
        collected(tmp_path, profiles, monkeypatch, "true")


def test_kernels_without_ranges_are_kept_with_a_note(
    tmp_path: Path, profiles: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = {"CONCURRENT_KERNEL": [kernel()], "RUNTIME": [call(211, 7)]}
    make(profiles / "bare", ["step"], events)
    (profiles / "bare").replace(profiles / "timeline")
    result = collected(tmp_path, profiles, monkeypatch, "true")
    assert result.status == "ok"
    (note,) = result.notes
    assert note.startswith("timeline.nvvp: holds no NVTX ranges: no training by PyTorch")
    assert note.endswith("call tbd_trace.instrument(model, optimizer) before the training loop")
