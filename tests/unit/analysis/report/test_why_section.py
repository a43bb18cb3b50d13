"""A report begins with the causes of slow training."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from corpus import ROOT
from drawing import undrawn
from tbd_trace.analysis.report.page import Figures, Note, Page, Plot, Section, Table
from tbd_trace.analysis.report.plotter import draw_later
from tbd_trace.analysis.report.report_query import Answer
from tbd_trace.analysis.report.sections import build_page
from tbd_trace.api import Traces
from tbd_trace.store import Database

Drawn = Callable[[], Plot | Note]

CAPTURE = ROOT / "data" / "samples" / "synthetic_cnn"


@pytest.fixture(scope="module")
def sample(sample_database: Database) -> Traces:
    return Traces(sample_database, sample_database.trace_ids())


@pytest.fixture(scope="module")
def page(sample: Traces) -> Page:
    def draw_the_step(answer: Answer, names: Mapping[str, str], caption: str) -> Drawn:
        draw = draw_later if answer.query.name == "step_timeline" else undrawn
        return draw(answer, names, caption)

    return build_page(sample, draw=draw_the_step)


@pytest.fixture(scope="module")
def section(page: Page) -> Section:
    return page.sections[0]


@pytest.mark.slow
def test_the_section_says_what_the_command_says(sample: Traces, section: Section) -> None:
    assert section.id == "why"
    said = [block.text for block in section.blocks if isinstance(block, Note)]
    screen = " ".join(str(sample.why()).split())
    for text in said:
        assert text.replace(": ", " ", 1) in screen or text in screen
    assert [text.split(":")[0] for text in said[1:4]] == [
        "Try first",
        "Expect",
        "After that",
    ]


@pytest.mark.slow
def test_the_table_has_all_causes_but_the_smallest(sample: Traces, section: Section) -> None:
    gaps, table = (block for block in section.blocks if isinstance(block, Table))
    assert gaps.frame.equals(sample.query("idle_causes"))
    causes = sample.why().slowest.causes
    shown = dict(table.frame.select("cause", "share_pct").iter_rows())
    assert shown == {c.title: c.share_pct for c in causes if c.share_pct >= 0.1}
    assert 99 < sum(shown.values()) <= 100.2


@pytest.mark.slow
def test_a_typical_step_is_drawn(sample: Traces, section: Section) -> None:
    plot, activity = (block for block in section.blocks if isinstance(block, Plot))
    assert activity.frame is not None
    assert activity.frame.equals(sample.query("gpu_activity"))
    assert plot.frame is not None
    assert plot.frame.equals(sample.query("step_timeline"))
    assert b"cause of the step" in plot.svg


@pytest.mark.slow
def test_a_report_about_memory_begins_with_its_verdict(memory_sample: Database) -> None:
    traces = Traces(memory_sample, memory_sample.trace_ids())
    first = build_page(traces, draw=undrawn).sections[0]
    assert (first.id, first.title) == ("why", "Memory at the peak")
    said = " ".join(str(traces.why()).split())
    texts = [block.text for block in first.blocks if isinstance(block, Note)]
    assert texts[0] in said
    assert [text.split(":")[0] for text in texts[1:3]] == ["Try first", "Expect"]
    captions = [block.caption for block in first.blocks if isinstance(block, Table)]
    assert captions == [
        "Classes of bytes at the peak",
        "Lines of code and layers",
        "Changes and the bytes after them",
        "Devices compared",
    ]


@pytest.mark.slow
def test_the_causes_are_open_and_most_sections_are_folded(page: Page) -> None:
    assert [found.id for found in page.sections if not found.folded] == ["why", "headline"]
    assert page.title == "synthetic_cnn"
    findings = next(found for found in page.sections if found.id == "findings")
    assert findings.count.endswith(" note")


@pytest.mark.slow
def test_several_runs_are_compared_in_one_table(tmp_path: Path) -> None:
    database = Database(tmp_path / "t.duckdb")
    for name in ("first", "second"):
        shutil.copytree(CAPTURE, tmp_path / name, ignore=shutil.ignore_patterns("*.csv"))
        document = json.loads((tmp_path / name / "capture.json").read_text())
        document |= {"capture_id": name, "files": document["files"][:1]}
        (tmp_path / name / "capture.json").write_text(json.dumps(document))
    database.ingest([tmp_path / "first", tmp_path / "second"])
    page = build_page(Traces(database, database.trace_ids()), draw=undrawn)
    assert {found.id for found in page.sections if not found.folded} == {"why"}
    runs = page.sections[0].blocks[0]
    assert isinstance(runs, Table)
    assert sorted(runs.frame["run"]) == ["first", "second"]
    assert runs.frame["step_ns"].n_unique() == 1
    assert set(page.trace_names.values()) == {"first", "second"}


@pytest.mark.slow
def test_headline_and_check_have_the_numbers_of_why(sample: Traces, page: Page) -> None:
    one = sample.why().slowest
    (row,) = (
        block
        for part in page.sections
        for block in part.blocks
        if part.id == "headline" and isinstance(block, Figures)
    )
    said = {figure.label: figure for figure in row.figures}
    assert one.step_ns is not None
    assert one.gpu_step_ns is not None
    time = said["Iteration time (mean)"]
    assert (time.value, time.unit) == (f"{one.step_ns / 1e6:.3g}", "ms")
    assert said["GPU busy"].value == f"{100 * one.gpu_step_ns / one.step_ns:.3g}"
    shares = {cause.title: cause.share_pct for cause in one.causes}
    (found,) = sample.check("OBS04").frame.to_dicts()
    idle_parts = re.findall(
        r"([a-z ]+) (\d+\.\d) %", found["reason"].partition("without a kernel: ")[2]
    )
    assert len(idle_parts) == 3
    for title, share in idle_parts:
        assert share == f"{shares[title.strip()]:.1f}"
    advice = {cause.title: cause.advice for cause in one.causes}
    assert found["advice"] == advice[idle_parts[0][0].strip()]
