"""What a report says about memory: the chapter, the headline, files with nothing but memory."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from corpus import ROOT
from drawing import undrawn
from made_memory import alloc, block, entry, free, segment, snapshot, write_log, write_pickle
from tbd_trace.analysis.report.page import Figure, Figures, Note, Page, Plot, Section, Table
from tbd_trace.analysis.report.sections import build_page
from tbd_trace.api import Traces
from tbd_trace.store import Database

SAMPLE = ROOT / "data" / "samples" / "synthetic_memory"
GOLDEN = ROOT / "tests" / "golden"
CHAPTER = "memory-use"


def page_of(folder: Path, *sources: Path) -> Page:
    database = Database(folder / "made.duckdb")
    database.ingest(sources)
    return build_page(Traces(database, database.trace_ids()), draw=undrawn)


def section(page: Page, name: str = CHAPTER) -> Section:
    return next(found for found in page.sections if found.id == name)


def rows_of_figures(page: Page) -> list[Figures]:
    return [block for block in section(page, "headline").blocks if isinstance(block, Figures)]


def figure(page: Page) -> Figure:
    ((found,),) = (row.figures for row in rows_of_figures(page))
    return found


def notes(page: Page, kind: str) -> list[str]:
    return [b.text for b in section(page).blocks if isinstance(b, Note) and b.kind == kind]


def golden(name: str) -> list[dict[str, Any]]:
    with (GOLDEN / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Page:
    return page_of(tmp_path_factory.mktemp("sample"), SAMPLE)


@pytest.mark.slow
def test_a_file_with_nothing_but_memory_has_no_chapters_about_time(sample: Page) -> None:
    ids = [found.id for found in sample.sections]
    assert ids == ["why", "headline", CHAPTER, "findings", "what-ran"]
    shown = [(type(b), b.query) for b in section(sample).blocks if isinstance(b, Plot | Table)]
    assert shown == [
        (Table, "memory_peak"),
        (Plot, "memory_timeline points=200"),
        (Plot, "memory_breakdown"),
        (Table, "memory_breakdown"),
        (Table, "memory_at_peak top=10"),
        (Table, "fragmentation"),
        (Plot, "segment_map"),
    ]
    assert notes(sample, "missing") == []


def test_the_headline_tells_the_peak_and_its_largest_class(sample: Page) -> None:
    figures = {}
    for row in rows_of_figures(sample):
        (figures[row.title],) = row.figures
    names = {row["trace_id"]: sample.trace_names[row["trace_id"]] for row in golden("memory_peak")}
    assert figures.keys() == set(names.values())
    for row in golden("memory_peak"):
        shown = figures[names[row["trace_id"]]]
        largest = next(r for r in golden("memory_breakdown") if r["trace_id"] == row["trace_id"])
        assert shown.value == f"{int(row['peak_requested_bytes']) / 2**20:.4g}"
        assert shown.unit == "MiB"
        part = int(largest["requested_bytes"]) / 2**20
        share = float(largest["share_pct"])
        assert f"largest class {largest['class']}, {part:.4g} MiB ({share:.3g} %)" in shown.detail
        assert f"held {int(row['peak_reserved_bytes']) / 2**20:.4g} MiB" in shown.detail
        assert shown.evidence.endswith(f"class: {largest['evidence']}")


@pytest.mark.slow
def test_a_log_says_what_a_snapshot_would_show(tmp_path: Path) -> None:
    events = [alloc(1, 1, 3000, "weight"), alloc(2, 2, 1000, "workspace"), free(3, 2, 1000)]
    page = page_of(tmp_path, write_log(tmp_path / "memory.jsonl", events))
    shown = figure(page)
    assert f"{shown.value} {shown.unit}" == "3.906 KiB"  # 4000 bytes
    assert shown.detail == "largest class weight, 2.93 KiB (75 %)"
    (missing,) = notes(page, "missing")
    assert missing.startswith("each of `fragmentation` and `segment_map` needs a memory snapshot")


@pytest.mark.slow
def test_classes_that_are_mostly_unknown_are_not_shown(tmp_path: Path) -> None:
    page = page_of(tmp_path, write_log(tmp_path / "memory.jsonl", [alloc(1, 1, 512)]))
    shown = figure(page)
    assert (shown.value, shown.unit) == ("512", "byte")
    assert shown.detail.startswith("the class of 100 % of the bytes is unknown")
    assert shown.evidence == "live bytes after each event"
    assert any("the class of 100 %" in text for text in notes(page, "missing"))


@pytest.mark.slow
def test_the_map_says_how_many_segments_it_leaves_out(tmp_path: Path) -> None:
    # 22 segments of 4 to 25 KiB: the 20 largest hold 6 to 25 KiB, 310 of 319.
    made = [segment(2**20 * size, [block(1024 * size, 1024 * size)]) for size in range(4, 26)]
    events = [entry("alloc", 2**20 * size, 1024 * size, size) for size in range(4, 26)]
    page = page_of(tmp_path, write_pickle(tmp_path / "made.pickle", snapshot(made, events)))
    assert notes(page, "note") == [
        "Shown are, of device 0: the 20 largest of 22 segments, 97.2 % of 319 KiB. "
        "`segment_map top=0` has all."
    ]
    (drawn,) = [b for b in section(page).blocks if isinstance(b, Plot) and b.query == "segment_map"]
    assert drawn.frame is not None
    assert drawn.frame["segment_id"].to_list() == list(range(1, 21))
