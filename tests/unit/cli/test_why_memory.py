"""``tbd-trace why`` about memory: the screen, JSON, and what files lack."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import tbd_trace
from corpus import ROOT
from made_memory import alloc, block, entry, free, segment, snapshot, write_log, write_pickle
from tbd_trace.analysis.report.memory_verdict import memory_verdict_section
from tbd_trace.analysis.report.page import Note, Table
from tbd_trace.cli.main import app
from tbd_trace.why.memory_result import MemoryVerdict
from tbd_trace.why.memory_words import size

MIB = 1 << 20
BASE = 1 << 32
FRAMES = [{"filename": "/a/net.py", "line": 12, "name": "forward"}]


def invoke(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


def said(*words: object) -> str:
    result = invoke(*words)
    assert result.exit_code == 0, result.output
    assert max(map(len, result.stdout.splitlines())) <= 100  # paths are not broken
    return " ".join(result.stdout.split())


def answer(*words: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(invoke(*words, "--format", "json").stdout)
    return found


def out_of_memory(path: Path, free_bytes: int | None = 20 * MIB, asked: int = 200 * MIB) -> Path:
    """900 of 1000 MiB are live when a request fails; a second device has 100 of 200 MiB."""
    events = [
        entry("segment_alloc", BASE, 1000 * MIB, 1_000_000),
        entry("alloc", BASE, 600 * MIB, 1_000_010, frames=FRAMES),
        entry("alloc", BASE + 700 * MIB, 300 * MIB, 1_000_020, frames=FRAMES),
    ]
    failed = entry("oom", 0, asked, 1_000_030, frames=FRAMES)
    del failed["addr"]
    if free_bytes is not None:
        failed["device_free"] = free_bytes
    parts = [block(600 * MIB, 600 * MIB), block(100 * MIB), block(300 * MIB, 300 * MIB)]
    other = segment(2 * BASE, [block(100 * MIB, 100 * MIB), block(100 * MIB)], device=1)
    later = [entry("alloc", 2 * BASE, 100 * MIB, 1_000_005)]
    made = snapshot([segment(BASE, parts), other], [*events, failed], later)
    return write_pickle(path, made)


def test_a_failed_request_in_words_and_numbers(tmp_path: Path) -> None:
    path = out_of_memory(tmp_path / "s.pickle")
    text = said("why", path)
    assert text == said(path)  # the file alone asks why
    for words in (
        "s.pickle · PyTorch memory snapshot · device 0",
        "Out of memory on device 0: 200.0 MiB asked, 20.00 MiB free on the device",
        "peak 900.0 MiB live, 1000.0 MiB held, at event 2 in the forward pass",
        "What holds the peak",
        "100.0 % feature maps net.py:12 forward 900.0 MiB; inferred from frames and lifetime",
        "request by net.py:12 forward on device 0",
        "1000.0 MiB held by the allocator, 100.0 MiB of it reserved but unused",
        "largest free block 100.0 MiB",
        "1.0 GiB on device 0, 0.2 GiB on device 1; device 0 holds 1.7 times the mean",
        "100.0 MiB of 1000.0 MiB held (10.0 %) are free in segments with live blocks",
        "expandable segments would return at most 80.00 MiB, 80.00 MiB of it in whole pages",
        "Others device 1: peak 100.0 MiB live, 200.0 MiB held",
    ):
        assert words in text


def test_json_has_the_keys_of_the_verdict_on_time(tmp_path: Path) -> None:
    found = answer("why", out_of_memory(tmp_path / "s.pickle"))
    assert found["verdict"] == "memory"
    assert found["base"] == {
        "moment": "peak", "sequence": 2, "timestamp_ns": 20_000, "phase": "forward",
        "live_bytes": 900 * MIB, "held_bytes": 1000 * MIB, "most_held_bytes": 1000 * MIB,
        "start_bytes": 0, "events": 2,
    }  # fmt: skip
    assert found["failed"] == {
        "sequence": 3, "timestamp_ns": 30_000, "requested_bytes": 200 * MIB,
        "device_free_bytes": 20 * MIB, "live_bytes": 900 * MIB, "held_bytes": 1000 * MIB,
        "unused_bytes": 100 * MIB, "largest_free_bytes": 100 * MIB,
        "line": "net.py:12 forward", "failures": 1,
    }  # fmt: skip
    first = found["try_first"]
    assert (first["unit"], found["change"]) == ("bytes", first["change"])
    assert first["best"] <= first["likely"] <= first["worst"] <= first["now"]
    # 180 MiB are lacking: half of the feature maps is enough, 100 MiB of free parts are not.
    assert first["change"] == "smaller_batch"
    assert [(one["change"], one["suffices"]) for one in found["changes"]] == [
        ("smaller_batch", True), ("expandable_segments", False)
    ]  # fmt: skip
    assert [one["device_id"] for one in found["others"]] == [1]
    (cause,) = found["causes"]
    assert (cause["cause"], cause["bytes"], cause["lines"][0]["allocations"]) == (
        "feature_map", 900 * MIB, 2
    )  # fmt: skip


def test_a_small_request_needs_only_the_free_parts(tmp_path: Path) -> None:
    found = answer("why", out_of_memory(tmp_path / "s.pickle", 22 * MIB, 101 * MIB))
    assert found["try_first"]["change"] == "expandable_segments"  # costs nothing
    assert {one["change"]: one["suffices"] for one in found["changes"]} == {
        "smaller_batch": True, "expandable_segments": True
    }  # fmt: skip


def test_free_bytes_of_the_device_can_be_missing(tmp_path: Path) -> None:
    path = out_of_memory(tmp_path / "s.pickle", None)
    assert "200.0 MiB asked, free bytes of the device not recorded" in said("why", path)
    assert answer("why", path)["failed"]["device_free_bytes"] is None


def bare(path: Path, *histories: Sequence[dict[str, Any]]) -> Path:
    parts = [block(12 * MIB, 11 * MIB), block(8 * MIB)]
    return write_pickle(path, snapshot([segment(BASE, parts)], *histories))


@pytest.mark.parametrize(
    ("histories", "words"),
    [
        ([], "the history has no entry and no allocation"),
        ([[]], "the history has no entry and no allocation"),
        ([[entry("snapshot", 0, 1)]], "the history has one entry and no allocation"),
    ],
)
def test_segments_alone(tmp_path: Path, histories: Any, words: str) -> None:
    text = said("why", bare(tmp_path / "s.pickle", *histories))
    assert words in text
    assert "peak not recorded; 11.00 MiB live, 20.00 MiB held at the end" in text
    assert "What holds the memory" in text
    assert "100.0 % before recording 1 block at the end of the recording" in text
    assert "probably" not in text
    assert "_record_memory_history" in text
    assert "the class of 100 % of the bytes" in text
    assert "at the end 8.00 MiB of 20.00 MiB held (40.0 %) are free" in text


@pytest.mark.parametrize("lost", ["address", "size"])
def test_blocks_that_lack_addresses_or_sizes(tmp_path: Path, lost: str) -> None:
    made = segment(BASE, [block(12 * MIB, 12 * MIB), block(8 * MIB)])
    if lost == "address":
        del made["address"]
    for part in made["blocks"]:
        part.pop(lost)
        part.pop("requested_size" if lost == "size" else "address", None)
    text = said("why", write_pickle(tmp_path / "s.pickle", snapshot([made])))
    assert "peak not recorded; 12.00 MiB live, 20.00 MiB held at the end" in text


def test_a_history_of_one_allocation(tmp_path: Path) -> None:
    parts = [block(12 * MIB, 12 * MIB), block(8 * MIB, 8 * MIB)]
    made = snapshot([segment(BASE, parts)], [entry("alloc", BASE, 12 * MIB)])
    text = said("why", write_pickle(tmp_path / "s.pickle", made))
    assert "the history has one entry: the peak is that of one event" in text
    assert "8.00 MiB were live before the first" in text
    assert "the history has no times" in text


def test_memory_of_private_pools_is_kept_apart(tmp_path: Path) -> None:
    pool = segment(2 * BASE, [block(20 * MIB)], segment_pool_id=(1, 0))
    made = snapshot([segment(BASE, [block(2 * MIB, 2 * MIB)]), pool])
    text = said("why", write_pickle(tmp_path / "s.pickle", made))
    assert "20.00 MiB belong to private pools, which other code cannot use" in text


def test_a_log_has_layers_in_place_of_lines(tmp_path: Path) -> None:
    events = [
        alloc(0, 1, 4096, "weight", layer="conv1", phase="setup"),
        alloc(1, 2, 8192, "feature_map", layer="conv2", phase="forward"),
        free(2, 2, 8192, phase="backward"),
    ]
    text = said("why", write_log(tmp_path / "memory.jsonl", events, framework="pytorch"))
    assert "66.7 % feature maps conv2 8.00 KiB" in text
    assert "33.3 % weights conv1 4.00 KiB" in text
    assert "in the forward pass" in text


@pytest.mark.parametrize(("limit", "code"), [(99, 1), (101, 0)])
def test_fail_on_a_class(tmp_path: Path, limit: int, code: int) -> None:
    path = out_of_memory(tmp_path / "s.pickle")
    result = invoke("why", path, "--fail-on", f"feature_map:{limit}")
    assert result.exit_code == code
    assert ("feature maps takes 100.0 % of the memory of" in result.stderr) is bool(code)


@pytest.mark.slow
def test_rules_markdown_and_plot(tmp_path: Path) -> None:
    path = out_of_memory(tmp_path / "s.pickle")
    everything = said("why", path, "--all", "--plot", tmp_path / "p.svg")
    assert "MEM04 (memory): device 0: an allocation of 200.00 MiB" in everything
    assert (tmp_path / "p.svg").stat().st_size > 1000
    rules = [one["rule"] for one in answer("why", path, "--all")["findings"]]
    assert "MEM04" in rules
    table = invoke("why", path, "--format", "markdown").stdout
    assert "| class | share | bytes | evidence |" in table
    assert "- Try first: halve the batch" in table


def test_the_sections_of_a_report(tmp_path: Path) -> None:
    verdict = tbd_trace.open(out_of_memory(tmp_path / "s.pickle")).why()
    assert isinstance(verdict, MemoryVerdict)
    section = memory_verdict_section(verdict)
    notes = [block.text for block in section.blocks if isinstance(block, Note)]
    assert notes[0].startswith("Out of memory on device 0")
    tables = [block for block in section.blocks if isinstance(block, Table)]
    assert [table.frame.height for table in tables] == [1, 1, 2, 2]
    assert repr(verdict) == "<MemoryVerdict of s.pickle: 943,718,400 bytes, 1 more>"
    assert verdict._repr_html_().startswith("<pre>s.pickle")


def test_answers_follow_the_schema(tmp_path: Path) -> None:
    text = (ROOT / "data" / "schemas" / "why_memory-1.json").read_text(encoding="utf-8")
    validator = pytest.importorskip("jsonschema").Draft202012Validator(json.loads(text))
    failed = out_of_memory(tmp_path / "s.pickle")
    for words in ([failed], [failed, "--all"], [bare(tmp_path / "bare.pickle")]):
        assert list(validator.iter_errors(answer("why", *words))) == []


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 B"), (1023, "1023 B"), (1024, "1.00 KiB"), (91.25 * MIB, "91.25 MiB"),
        (132.9 * MIB, "132.9 MiB"), (5_308_694_528, "4.94 GiB"), (2 << 40, "2.00 TiB"),
    ],
)  # fmt: skip
def test_sizes(number: float, text: str) -> None:
    assert size(number) == text
