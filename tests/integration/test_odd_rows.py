"""Traces with rows that cannot be, beside one that is sound: every question is answered."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import tbd_trace
from corpus import case_file
from odd_rows import Change, changes, healthy_nsys, healthy_nvprof, write_nsys, write_nvprof
from tbd_trace.analysis.checks import evaluate_on, select
from tbd_trace.analysis.checks.rules import values
from tbd_trace.errors import CannotAnswerError
from tbd_trace.query import Catalogue
from tbd_trace.query.shared_session import SharedSession
from tbd_trace.store import Database

# What these say about a trace depends on the others.
RELATIVE = {"suite_compare", "batch_sweep"}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the files of the cases anew."""
    monkeypatch.setenv("TBD_TRACE_CACHE", str(tmp_path / "cache"))


def answers(database: Database) -> dict[str, pl.DataFrame | None]:
    """Ask everything; None for what no trace can answer."""
    found: dict[str, pl.DataFrame | None] = {}
    checks = select(None)
    with SharedSession(database, database.trace_ids()) as session:
        for query in Catalogue().metrics():
            try:
                found[query.name] = session.run(query).frame
            except CannotAnswerError:
                found[query.name] = None
        # With the parameters of the metrics the checks find their relations derived.
        return found | {"check": evaluate_on(session, checks, values(checks, {}))}


def assert_sound_one_is_as_before(database: Database, odd: list[Path]) -> None:
    """Ingest odd files beside what is there, and compare all answers about that."""
    before = answers(database)
    (sound,) = database.trace_ids()
    database.ingest(odd)
    after = answers(database)
    for name in before.keys() - RELATIVE:
        if (expected := before[name]) is not None:
            found = after[name]
            assert found is not None, name
            is_sound = pl.col("trace_id") == sound
            assert found.filter(is_sound).equals(expected.filter(is_sound)), name


@pytest.mark.slow
@given(
    st.lists(changes(healthy_nsys()), min_size=8, max_size=8),
    st.lists(changes(healthy_nvprof()), min_size=4, max_size=4),
)
@settings(
    max_examples=int(os.environ.get("TBD_TRACE_ODD_EXAMPLES", "1")),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.function_scoped_fixture,
    ],
)
def test_no_odd_row_stops_an_answer(nsys: list[list[Change]], nvprof: list[list[Change]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        database = Database(folder / "db.duckdb")
        database.ingest([write_nsys(folder / "sound.sqlite", [])])
        odd = [write_nsys(folder / f"{i}.sqlite", wanted) for i, wanted in enumerate(nsys)]
        odd += [write_nvprof(folder / f"{i}.nvprof", wanted) for i, wanted in enumerate(nvprof)]
        assert_sound_one_is_as_before(database, odd)


@pytest.mark.slow
@pytest.mark.nightly(
    covered_by="tests/integration/test_cases.py::test_hostile_files_keep_their_kernels"
)
def test_hostile_files_beside_a_sound_one(tmp_path: Path) -> None:
    folder = case_file("hostile")
    hostile = [*sorted(folder.glob("*.sqlite")), *sorted(folder.glob("*.csv"))]
    database = Database(tmp_path / "db.duckdb")
    database.ingest([write_nsys(tmp_path / "sound.sqlite", [])])
    assert_sound_one_is_as_before(database, hostile)
    info = tbd_trace.open(db=database.path).query("trace_info")
    assert all(row["notes"] for row in info.to_dicts() if row["name"] != "sound.sqlite")


def answered(case: str, name: str = "input.sqlite") -> tbd_trace.api.Traces:
    """Open the file of a case, or skip."""
    return tbd_trace.open(case_file(f"{case}/{name}"))


def notes(traces: tbd_trace.api.Traces) -> list[str]:
    (row,) = traces.query("trace_info").to_dicts()
    return list(row["notes"])


@pytest.mark.slow
@pytest.mark.nightly(
    covered_by="tests/integration/test_cases.py::test_a_gpu_clock_ahead_of_the_host_s"
)
def test_two_clocks() -> None:
    traces = answered("02-clock-skew")
    assert any(note.startswith("GPU clock was 300.000 s ahead") for note in notes(traces))
    ((duration,),) = traces.query("trace_info").select("duration_ns").rows()
    assert abs(duration - 1_200_000_000) < 1_000_000
    causes = dict(traces.query("idle_causes").select("cause", "share_pct").rows())
    assert causes["host"] > 95


@pytest.mark.slow
@pytest.mark.nightly(
    covered_by="tests/integration/test_cases.py::test_kernels_that_end_before_they_start"
)
def test_kernels_without_time_are_reported() -> None:
    traces = answered("10-negative-and-subus-kernels")
    assert any("end before they start: 3;" in note for note in notes(traces))
    assert traces.query("kernel_summary")["total_ns"].sum() == 50_000


@pytest.mark.slow
@pytest.mark.nightly(
    covered_by="tests/integration/test_cases.py::test_work_that_overlaps_on_one_stream"
)
def test_a_kernel_over_its_successors() -> None:
    traces = answered("11-corrupt-huge-duration")
    assert any("overlap an earlier one" in note and ": 499," in note for note in notes(traces))


@pytest.mark.slow
@pytest.mark.nightly(
    covered_by="tests/integration/test_cases.py::test_a_correlation_id_that_is_used_again"
)
def test_correlation_ids_used_again() -> None:
    traces = answered("22-correlation-id-reuse")
    shares = dict(traces.query("dominant_layer").select("layer", "share_pct").rows())
    assert shares == {"conv": 80, "linear": 20}
    assert any("used for several launches: 20;" in note for note in notes(traces))


@pytest.mark.parametrize("name", ["input.csv", "concat.csv"])
def test_ids_of_two_processes(name: str) -> None:
    (row,) = answered("27-ncu-multi-process-ids", name).query("kernel_summary").to_dicts()
    assert (row["instances"], row["total_ns"]) == (6, 6_153_000)


@pytest.mark.slow
def test_what_was_right_stays_right() -> None:
    orphan = answered("03-pyprof98-orphan-corr", "input.nvprof")
    assert orphan.query("kernel_summary")["instances"].sum() == 20
    causes = {row["cause"]: row for row in orphan.query("idle_causes").to_dicts()}
    assert causes["unknown"]["reason"].startswith("the trace has no record of the launch")
    open_range = answered("05-nvtx-null-end").query("nvtx_summary")
    assert open_range["open_instances"].sum() == 1
    nested = answered("18-nvprof-cdp-kernels", "input.nvprof")
    assert nested.query("kernel_summary")["instances"].sum() == 26
    assert notes(nested) == []
    nameless = answered("24-missing-strings").query("kernel_summary")
    assert dict(nameless.select("kernel_name", "instances").rows())["unknown"] == 10
