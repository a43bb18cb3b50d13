"""Queries above the replay: the same answers as the commands, and a loop known to the ns."""

from __future__ import annotations

from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import tbd_trace
from corpus import ROOT
from made_loop import GAP, LAUNCH, PAUSE, TAIL, Loop
from made_trace import MadeDatabase
from perfetto_file import read
from tbd_trace.api import Traces
from tbd_trace.cli.main import app
from tbd_trace.errors import CannotAnswerError, UsageError
from tbd_trace.export.perfetto import export
from tbd_trace.query import Catalogue, Query, prepare, script
from tbd_trace.query.catalogue import derive_relations
from tbd_trace.store import Database

pytestmark = pytest.mark.usefixtures("sample_cache")
MS = 1_000_000
SAMPLE = ROOT / "data" / "samples" / "synthetic_cnn"


@pytest.fixture(scope="module")
def sample(sample_database: Database) -> Traces:
    return Traces(sample_database, sample_database.trace_ids())


def rows(database: MadeDatabase, metric: str, change: str = "") -> list[dict[str, Any]]:
    query = Catalogue().get(metric)
    database.connection.execute("SET VARIABLE change = $change", {"change": change})
    prepare(database.connection, query.relations)
    return database.select(query.sql)


@pytest.mark.slow
def test_why_is_the_command_as_rows(sample: Traces) -> None:
    one = sample.why().slowest
    frame = sample.query("why")
    assert frame["rank"].to_list() == list(range(1, len(one.causes) + 1))
    for cause, row in zip(one.causes, frame.to_dicts(), strict=True):
        known = {name: getattr(cause, name) for name in cause.__slots__}
        assert row.items() >= known.items()
        assert row["is_change"] == (cause.cause == one.change)
        then = cause.likely_step_ns
        assert row["gain_pct"] == (None if then is None else 100 * (one.judged_step_ns / then - 1))
    for name in ("steps", "judged_step_ns", "replay_error_pct", "measured_over", "pid"):
        assert set(frame[name]) == {getattr(one, name)}


@pytest.mark.slow
@pytest.mark.parametrize("change", ["amp", "overlap_copies; graph", "gpu=H100 SXM5"])
def test_whatif_is_the_command_as_rows(sample: Traces, change: str) -> None:
    (row,) = sample.query("whatif", change=change).to_dicts()
    expected = sample.whatif(*change.split("; ")).to_dict()
    assert row == expected | {"reason": None}


def test_whatif_without_a_change_has_all_that_need_no_argument(sample: Traces) -> None:
    frame = sample.query("whatif")
    assert {"input", "graph", "no_alloc", "host_stalls"} <= set(frame["change"])
    assert not {"drop", "workers", "gpu"} & set(frame["change"])
    assert frame["step_ns"].is_sorted()


def test_a_wrong_change_is_an_error(sample: Traces) -> None:
    with pytest.raises(UsageError, match="faster: unknown; use one of input"):
        sample.query("whatif", change="faster")


@pytest.mark.slow
def test_changes_that_need_calls_say_so_where_there_are_none() -> None:
    made = Loop().run()
    made.rows["api_call"] = made.rows["api_call"][::9]
    with made.connect() as database:
        found = {row["change"]: row for row in rows(database, "whatif")}
    assert found["graph"]["step_ns"] is None
    assert "needs the launching calls" in found["graph"]["reason"]
    assert found["amp"]["reason"] is None
    assert found["amp"]["step_ns"] is not None


@pytest.mark.slow
def test_events_of_the_replay_are_those_of_the_changed_loop() -> None:
    kernels = [("void elementwise_kernel", 300_000)] * 4
    halved = Loop(kernels=[(name, ns // 2) for name, ns in kernels])
    expected = halved.run()
    with Loop(kernels=kernels).run().connect() as database:
        database.connection.execute("SET VARIABLE change = 'scale=elementwise:0.5'")
        found = database.relation("replay_event")
    first = min(row["start_ns"] for row in found if row["event"] == "operation")
    starts = [row["start_ns"] for table in ("kernel", "memcpy") for row in expected.rows[table]]
    operations = sorted(row["start_ns"] - first for row in found if row["event"] == "operation")
    assert operations == pytest.approx(sorted(at - min(starts) for at in starts), abs=10_000)
    assert {row["change"] for row in found} == {"scale=elementwise:0.5"}
    calls = [row for row in found if row["event"] == "call"]
    assert len(calls) == len(expected.rows["api_call"]) + 2  # and where the steps begin and end


@pytest.mark.slow
def test_positions_of_the_replay_are_those_of_calls_and_operations() -> None:
    with Loop().run().connect() as database:
        database.connection.execute("SET VARIABLE change = 'scale=elementwise:0.5'")
        found = database.relation("replay_event")
        for event, measured in (("call", "host_chain"), ("operation", "gpu_chain")):
            chain = {row["position"]: row["start_ns"] for row in database.relation(measured)}
            replayed = {row["position"]: row["start_ns"] for row in found if row["event"] == event}
            assert replayed == chain


@pytest.mark.slow
def test_intervals_of_causes_add_up_to_the_shares(sample: Traces) -> None:
    intervals = sample.sql(
        "SELECT cause, sum((end_ns - start_ns) * share) AS ns FROM cause_interval GROUP BY ALL"
    )
    found = dict(intervals.rows())
    one = sample.why().slowest
    assert sum(found.values()) == pytest.approx(one.elapsed_ns)
    for cause in one.causes:
        assert 100 * found[cause.cause] / one.elapsed_ns == pytest.approx(cause.share_pct)


# a typical step


@pytest.mark.slow
def test_a_step_of_a_loop_in_lanes() -> None:
    # Each step: 20 ms of loading, a copy of 4 ms, a kernel of 6 ms, and a wait for it.
    loop = Loop(
        kernels=[("ampere_sgemm_128x64_tn", 6 * MS)],
        copy_ns=4 * MS,
        loading_ns=dict.fromkeys(range(12), 20 * MS),
    )
    with loop.run().connect() as database:
        found = rows(database, "step_timeline")
    step = 4 * MS + GAP + 6 * MS + TAIL + 2 * PAUSE + 20 * MS + LAUNCH
    assert {row["step_ns"] for row in found} == {step}
    lanes: dict[str, list[tuple[str, float, float]]] = {}
    for row in found:
        lane = lanes.setdefault(row["lane"], [])
        lane.append((row["kind"], row["time_in_step_ns"] / MS, row["duration_ns"] / MS))
    assert list(lanes) == ["cause of the step", "thread", "GPU 0 stream 7"]
    matmul, part = "GPU matrix work without tensor cores", step / MS / 500
    expected = {
        "cause of the step": [("input pipeline", 0, 20), ("copies", 20, 4), (matmul, 24, 6)],
        "thread": [("input pipeline", 0, 20), ("synchronization", 20 + part, 10)],
        "GPU 0 stream 7": [("copies", 20, 4), (matmul, 24, 6)],
    }
    for name, bars in expected.items():
        long = [bar for bar in lanes[name] if bar[2] > 1]
        assert [kind for kind, *_ in long] == [kind for kind, _, ns in bars if ns > 1]
        for (_, at, took), (_, begin, ns) in zip(long, [b for b in bars if b[2] > 1], strict=True):
            assert (at, took) == pytest.approx((begin, ns), abs=2 * part)


@pytest.mark.slow
def test_the_typical_step_is_neither_warm_up_nor_a_slow_one() -> None:
    loop = Loop(loading_ns={0: 30 * MS, 4: 50 * MS, 7: 90 * MS})
    with loop.run().connect() as database:
        found = rows(database, "step_timeline")
    begins = [begin - loop.loading_ns.get(step, 20_000) for step, begin in enumerate(loop.begins)]
    usual = sorted(b - a for a, b in pairwise(begins))
    (step,) = {row["step_ns"] for row in found}
    assert step == usual[len(usual) // 2]
    assert found[0]["step"] > 0


@pytest.mark.slow
def test_without_steps_there_is_no_typical_one() -> None:
    made = Loop(steps=1).run()
    made.rows["annotation"] = []
    with made.connect() as database:
        assert rows(database, "step_timeline") == []


@pytest.mark.slow
def test_why_draws_the_step(tmp_path: Path) -> None:
    path = tmp_path / "step.svg"
    result = CliRunner().invoke(app, ["why", str(SAMPLE), "--plot", str(path)])
    assert result.exit_code == 0
    svg = path.read_text()
    for text in ("cause of the step", "python 4242", "GPU 0 stream 14", "time in step (ms)"):
        assert text in svg, text
    wrong = CliRunner().invoke(app, ["why", str(SAMPLE), "--plot", str(tmp_path / "step.txt")])
    assert wrong.exit_code == 2


@pytest.mark.slow
def test_perfetto_shows_the_causes(tmp_path: Path) -> None:
    traces = tbd_trace.open(SAMPLE)
    export(traces, tmp_path / "t.pftrace")
    shown = read(tmp_path / "t.pftrace").of("cause")
    expected = traces.sql(
        "SELECT start_ns, end_ns, title FROM cause_interval JOIN step_causes USING (cause)"
    )
    assert sorted((s.start, s.end, s.name) for s in shown) == sorted(expected.rows())
    assert {slice_.track[-1].partition(" (")[0] for slice_ in shown} == {"Causes"}


# relations that Python computes


COMPUTED = [relation for relation in derive_relations() if relation.computed_by]


@pytest.mark.slow
@pytest.mark.parametrize("relation", COMPUTED, ids=lambda relation: relation.name)
def test_functions_return_every_column(relation: Query) -> None:
    function = getattr(import_module(relation.computed_by), relation.name)
    with Loop().run().connect() as database:
        prepare(database.connection, relation.relations)
        assert set(relation.columns) <= set(function(database.connection).columns)


def test_a_script_says_that_it_cannot_contain_them() -> None:
    with pytest.raises(UsageError, match="tbd-trace export table step_cause"):
        script(Catalogue().get("why"))


@pytest.mark.slow
def test_parameters_and_training() -> None:
    made = Loop(kernels=[("ncclDevKernel_AllReduce", 4 * MS)]).run()
    with made.connect() as database:
        prepare(database.connection, ["step_cause"])
        rows = database.select("FROM step_cause WHERE cause = 'communication'")
        database.connection.execute("DROP TABLE step_cause; DROP TABLE training_window")
        database.connection.execute("SET VARIABLE assume_training = true")
        prepare(database.connection, ["step_cause"])
        assumed = database.select("FROM step_cause WHERE cause = 'communication'")
    assert rows[0]["advice"] is None
    assert any(text.startswith("whether the program trains") for text in rows[0]["not_known"])
    assert assumed[0]["advice"].startswith("half the bytes of gradients")
    assert assumed[0]["not_known"] == []


@pytest.mark.slow
def test_answers_do_not_depend_on_the_number_of_traces(
    sample: Traces, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = sample.why().to_dict()
    monkeypatch.setattr("tbd_trace.query.parts._SMALL_BYTES", 0)
    assert sample.why().to_dict() == together
    counters = tbd_trace.open(ROOT / "data" / "samples" / "synthetic_cnn" / "metrics.csv")
    with pytest.raises(CannotAnswerError, match="why needs"):
        counters.why()
