"""What a report says about the ranks of jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

import made_kineto
from drawing import undrawn
from made_job import write_job
from made_nccl_tests import LOG
from tbd_trace.analysis.report.page import Figures, Note, Page, Plot, Section, Table
from tbd_trace.analysis.report.sections import build_page
from tbd_trace.api import Traces
from tbd_trace.store import Database
from tbd_trace.store.ranks import job_files


def page_of(folder: Path, **jobs: list[Path]) -> Page:
    database = Database(folder / "made.duckdb")
    for name, paths in jobs.items():
        database.ingest_files(job_files(name, paths))
    return build_page(Traces(database, database.trace_ids()), draw=undrawn)


def ranks_of(page: Page) -> Section | None:
    return next((found for found in page.sections if found.id == "ranks"), None)


def figures(page: Page, title: str) -> dict[str, tuple[str, str]]:
    blocks = [block for section in page.sections for block in section.blocks]
    [row] = [block for block in blocks if isinstance(block, Figures) and block.title == title]
    return {figure.label: (figure.value, figure.detail) for figure in row.figures}


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Page:
    folder = tmp_path_factory.mktemp("page")
    log = folder / "link.log"
    log.write_text(LOG)
    return page_of(folder, run=[write_job(folder / "run", late=1, world=4), log])


@pytest.mark.slow
def test_the_chapter_of_a_job(page: Page) -> None:
    section = ranks_of(page)
    assert section is not None
    shown = [(type(b), b.query) for b in section.blocks if isinstance(b, Plot | Table)]
    assert shown == [
        (Table, "job_summary"),
        (Plot, "straggler"),
        (Table, "straggler"),
        (Plot, "rank_skew by=iteration"),
        (Plot, "comm_overlap"),
        (Table, "comm_overlap"),
        (Plot, "collective_bandwidth"),
        (Table, "collective_bandwidth"),
        (Table, "link_summary"),
    ]
    notes = [b.text for b in section.blocks if isinstance(b, Note)]
    assert notes == [
        "run: same rank: rank 1 is last in 4 of 4 decided collectives; rank 3 is missing, "
        "by 40 ms (20 % of an iteration)."
    ]


@pytest.mark.slow
def test_lateness_by_rank_and_iteration(page: Page) -> None:
    section = ranks_of(page)
    assert section is not None
    [plot] = [b for b in section.blocks if isinstance(b, Plot) and "rank_skew" in b.query]
    assert plot.frame is not None
    found = plot.frame.select("iteration", "rank", "lateness_ns", "iteration_end").rows()
    assert found == [
        (number, rank, 40_000_000 * (rank == 1), number + 1)
        for number in range(4) for rank in range(3)
    ]  # fmt: skip


def test_the_headline_of_a_job(page: Page) -> None:
    assert figures(page, "Job run") == {
        "Ranks": ("3 of 4", "rank 3 is missing; 4 of 4 collectives matched"),
        "Straggler": (
            "rank 1",
            "same rank: rank 1 is last in 4 of 4 decided collectives; rank 3 is missing, by 40 ms "
            "(20 % of an iteration)",
        ),
    }


@pytest.mark.slow
def test_each_job_has_a_row_of_the_headline(tmp_path: Path) -> None:
    jobs = {"a": [write_job(tmp_path / "a", late=2)], "b": [write_job(tmp_path / "b", 2)]}
    page = page_of(tmp_path, **jobs)
    assert figures(page, "Job a")["Straggler"][0] == "rank 2"
    # Starts at the same time are within the uncertainty of the clocks.
    assert figures(page, "Job b")["Straggler"][0] == "\N{EN DASH}"
    assert figures(page, "Job b")["Ranks"][0] == "2"


@pytest.mark.slow
def test_one_rank_of_several_has_nobody_to_compare_with(tmp_path: Path) -> None:
    page = page_of(tmp_path, run=[write_job(tmp_path / "run", 1, world=2)])
    assert figures(page, "Job run")["Straggler"] == ("\N{EN DASH}", "no matched collectives")
    section = ranks_of(page)
    assert section is not None
    missing = [b.text for b in section.blocks if isinstance(b, Note) and b.kind == "missing"]
    assert any("needs collectives of at least two ranks" in text for text in missing)


@pytest.mark.slow
def test_a_single_process_has_no_chapter(tmp_path: Path) -> None:
    info = {"distributedInfo": {"backend": "gloo", "rank": 0, "world_size": 1}}
    events = [made_kineto.launch(1, 3), made_kineto.kernel(2, 1, 3)]
    database = Database(tmp_path / "made.duckdb")
    for number, header in enumerate(({}, info)):
        path = tmp_path / f"{number}.json"
        database.ingest([made_kineto.write(path, made_kineto.document(events, **header))])
    page = build_page(Traces(database, database.trace_ids()), draw=undrawn)
    assert len(page.trace_names) == 2
    assert ranks_of(page) is None
