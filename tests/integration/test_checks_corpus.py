"""The rules on real traces: each gives one verdict, and evaluates as training only what trains."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import polars as pl
import pytest

from corpus import corpus_file, matching, relative
from expectations import expectations, shows_training
from real_traces import Traces
from tbd_trace.analysis.checks import evaluate, select
from tbd_trace.analysis.checks.rules import rule_of
from tbd_trace.api import Traces as Opened
from tbd_trace.errors import InputError

pytestmark = pytest.mark.slow

PATTERNS = ("nsys/*", "nvprof/*", "nvprof_csv/*", "ncu/*", "odd/*.sqlite")
NERSC = "nsys/NERSC_sc22-dl-tutorial__sample_nsys_profiles__{}.qdrep.exp2022.4.sqlite"
# How OBS04 rates the GPU's idle time in runs of NERSC.
RUNS = {
    "baseline": ("finding", "severe"),  # a native loader that keeps the GPU waiting
    "dali_amp_apex_jit": ("finding", "warning"),
    "4gpu_baseline": ("pass", None),
    "4gpu_bucketcap100mb": ("pass", None),
}
ABOUT_TRAINING = ("OBS05", "OBS06", "ROB01")
ABOUT_ANY_KERNELS = ("ADV01", "OBS04", "OBS08", "OCC01", "OCC02", "COM01")


@pytest.fixture(scope="module", params=["some", pytest.param("all", marks=pytest.mark.nightly)])
def found(request: pytest.FixtureRequest, traces: Traces) -> tuple[pl.DataFrame, dict[str, str]]:
    """Return what all rules say about traces at once, and the traces' names by their ids."""
    known = expectations()
    names = {}
    files = matching(*PATTERNS)
    if request.param == "some":
        named = {NERSC.format(run) for run in RUNS}
        files = [file for i, file in enumerate(files) if i % 24 == 0 or relative(file) in named]
    for path in files:
        name = relative(path)
        try:
            names[traces.id(name)] = name
        except InputError:
            assert name not in known or not known[name].reads, f"cannot be read: {name}"
    return evaluate(Opened(traces.database, list(names))), names


def test_each_rule_has_one_verdict_on_each_trace(
    found: tuple[pl.DataFrame, dict[str, str]],
) -> None:
    frame, names = found
    for query in select():
        rule = rule_of(query)
        rows = frame.filter(rule=rule.rule)
        if rule.scope == "trace":
            assert sorted(rows["trace_id"].to_list()) == sorted(names)
        elif rule.scope == "job":  # a file with several ranks is one
            alone = rows["trace_id"].drop_nulls().to_list()
            assert None in rows["trace_id"]
            assert len(alone) == len(set(alone))
            # Collectives of an unknown rank are evaluated by trace, where a rule asks for no ranks.
            assert set(alone) <= (set(names) if rule.rule == "NET03" else set())
        else:  # nothing in the corpus is a capture
            assert rows["trace_id"].to_list() == [None]
            assert rows["verdict"].to_list() == ["not evaluable"]
    assert frame["reason"].null_count() == 0
    for row in frame.filter(verdict="finding").iter_rows(named=True):
        assert row["severity"] is not None
        assert row["advice"] is not None
        assert row["value"] is not None


def test_only_training_is_evaluated_as_training(found: tuple[pl.DataFrame, dict[str, str]]) -> None:
    frame, names = found
    evaluated = frame.filter(
        pl.col("rule").is_in(ABOUT_TRAINING), pl.col("verdict") != "not evaluable"
    )
    evaluated_names = {names[trace_id] for trace_id in evaluated["trace_id"]}
    known = expectations()
    for name in names.values():
        if name not in known:
            assert name not in evaluated_names or shows_training(corpus_file(name)), name
        elif known[name].trains and known[name].steps:
            assert name in evaluated_names, f"training steps are marked: {name}"
        else:
            assert name not in evaluated_names, f"{name}: {known[name].reason}"


def test_what_does_not_train_gets_notes_alone(found: tuple[pl.DataFrame, dict[str, str]]) -> None:
    frame, names = found
    known = expectations()
    rows = frame.filter(pl.col("rule").is_in(ABOUT_ANY_KERNELS), verdict="finding")
    for row in rows.iter_rows(named=True):
        name = names[row["trace_id"]]
        trains = known[name].trains if name in known else shows_training(corpus_file(name))
        assert trains or row["severity"] == "note", (name, row["rule"])


def test_the_independent_look_agrees_with_what_is_known() -> None:
    """It may find a backward pass that does not run in steps, but misses no marked training."""
    for name, expected in expectations().items():
        if expected.steps:
            assert shows_training(corpus_file(name)), name


@pytest.mark.parametrize("run", RUNS)
def test_gpu_idle_in_real_training(found: tuple[pl.DataFrame, dict[str, str]], run: str) -> None:
    frame, names = found
    (trace_id,) = (trace_id for trace_id, file in names.items() if file == NERSC.format(run))
    row = frame.row(
        by_predicate=(pl.col("rule") == "OBS04") & (pl.col("trace_id") == trace_id), named=True
    )
    assert (row["verdict"], row["severity"]) == RUNS[run]


def test_findings_about_recordings_are_few(found: tuple[pl.DataFrame, dict[str, str]]) -> None:
    """In known traces, rules about recordings find missing launches and nothing else."""
    frame, names = found
    rows = frame.filter(
        ~pl.col("rule").is_in([*ABOUT_TRAINING, *ABOUT_ANY_KERNELS]), verdict="finding"
    )
    known = expectations()
    for row in rows.iter_rows(named=True):
        name = names[row["trace_id"]]
        assert name not in known or row["rule"] == "ROB02", name
        if name in known:
            assert unlaunched_share(corpus_file(name)) > 0.01, name


def unlaunched_share(path: Path) -> float:
    """Return the share of the kernels of an nsys file that no call launched."""
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        ((share,),) = database.execute(
            """
            SELECT avg(NOT EXISTS (
                SELECT 1 FROM CUPTI_ACTIVITY_KIND_RUNTIME r
                WHERE r.correlationId = k.correlationId AND r.globalTid >> 24 = k.globalPid >> 24))
            FROM CUPTI_ACTIVITY_KIND_KERNEL k
            """
        )
    return float(share)
