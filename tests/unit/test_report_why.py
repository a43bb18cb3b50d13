"""A report begins with the causes of slow training."""

from __future__ import annotations

import pytest

from tbd_trace.analysis.report.page import Note, Plot, Section, Table
from tbd_trace.analysis.report.sections import build_page
from tbd_trace.api import Traces
from tbd_trace.store import Database


@pytest.fixture(scope="module")
def sample(sample_database: Database) -> Traces:
    return Traces(sample_database, sample_database.trace_ids())


@pytest.fixture(scope="module")
def section(sample: Traces) -> Section:
    return build_page(sample).sections[0]


def test_the_section_says_what_the_command_says(sample: Traces, section: Section) -> None:
    assert section.id == "why"
    said = [block.text for block in section.blocks if isinstance(block, Note)]
    screen = " ".join(str(sample.why()).split())
    for text in said:
        assert text.replace(": ", " ", 1) in screen or text in screen
    assert [text.split(":")[0] for text in said[1:4]] == ["Change", "Gain", "Then"]


def test_the_table_has_all_causes_but_the_smallest(sample: Traces, section: Section) -> None:
    (table,) = (block for block in section.blocks if isinstance(block, Table))
    causes = sample.why().slowest.causes
    shown = dict(table.frame.select("cause", "share_pct").iter_rows())
    assert shown == {c.title: c.share_pct for c in causes if c.share_pct >= 0.1}
    assert 99 < sum(shown.values()) <= 100.2


def test_a_typical_step_is_drawn(sample: Traces, section: Section) -> None:
    (plot,) = (block for block in section.blocks if isinstance(block, Plot))
    assert plot.frame is not None
    assert plot.frame.equals(sample.query("step_timeline"))
    assert b"cause of the step" in plot.svg


def test_a_report_without_kernels_has_no_such_section(memory_sample: Database) -> None:
    page = build_page(Traces(memory_sample, memory_sample.trace_ids()))
    assert "why" not in {found.id for found in page.sections}
