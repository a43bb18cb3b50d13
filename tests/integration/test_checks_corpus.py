"""The rules on real traces: each gives one verdict, and judges as training only what trains."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from real_traces import Traces

from corpus import CORPUS
from tbd_trace.api import Traces as Opened
from tbd_trace.checks import evaluate, select
from tbd_trace.checks.rules import rule_of

PATTERNS = ("nsys/*", "nvprof/*", "nvprof_csv/*", "ncu/*", "odd/*.sqlite")
# What TRACES.md calls training and what has iterations; all else is inference, a benchmark, another
# program, or the start of a run.
TRAINING = "nsys/NERSC_sc22-dl-tutorial__sample_nsys_profiles__{}.qdrep.exp2022.4.sqlite"
ABOUT_TRAINING = ("OBS04", "OBS05", "OBS06", "OBS08", "ROB01", "OCC01", "OCC02", "COM01")
# Not profiles, or damaged: ingesting them is an error already.
UNREADABLE = (
    "DERIVED_truncated",
    "MohanadOdema_DLProf__dlprof",
    "hpcgroup_pipit__docs",
    "koshiq",
    "skycs97",
)


@pytest.fixture(scope="module")
def found(traces: Traces) -> tuple[pl.DataFrame, dict[str, str]]:
    """Return what all rules say about all traces at once, and the traces' names by their ids."""
    if not CORPUS.is_dir():
        pytest.skip(f"no real traces at {CORPUS} (set TBD_TRACE_CORPUS)")
    files = [file for pattern in PATTERNS for file in sorted(CORPUS.glob(pattern))]
    names = {
        traces.id(str(file.relative_to(CORPUS))): file.name
        for file in files
        if not file.name.startswith(UNREADABLE)
    }
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
        else:  # nothing in the corpus is a capture
            assert rows["trace_id"].to_list() == [None]
            assert rows["verdict"].to_list() == ["not evaluable"]
    assert frame["reason"].null_count() == 0
    for row in frame.filter(verdict="finding").iter_rows(named=True):
        assert row["severity"] is not None
        assert row["advice"] is not None
        assert row["value"] is not None


def test_only_training_is_judged_as_training(found: tuple[pl.DataFrame, dict[str, str]]) -> None:
    frame, names = found
    judged = frame.filter(
        pl.col("rule").is_in(ABOUT_TRAINING), pl.col("verdict") != "not evaluable"
    )
    assert {names[trace_id] for trace_id in judged["trace_id"]} == {
        Path(TRAINING.format(run)).name
        for run in ("baseline", "dali_amp_apex_jit", "4gpu_baseline", "4gpu_bucketcap100mb")
    }


@pytest.mark.parametrize(
    ("run", "verdict", "severity"),
    [
        ("baseline", "finding", "severe"),  # a native loader that keeps the GPU waiting
        ("dali_amp_apex_jit", "finding", "warning"),
        ("4gpu_baseline", "pass", None),
        ("4gpu_bucketcap100mb", "pass", None),
    ],
)
def test_gpu_idle_in_real_training(
    found: tuple[pl.DataFrame, dict[str, str]], run: str, verdict: str, severity: str | None
) -> None:
    frame, names = found
    name = Path(TRAINING.format(run)).name
    (trace_id,) = (trace_id for trace_id, file in names.items() if file == name)
    row = frame.row(
        by_predicate=(pl.col("rule") == "OBS04") & (pl.col("trace_id") == trace_id), named=True
    )
    assert (row["verdict"], row["severity"]) == (verdict, severity)


def test_findings_about_recordings_are_few(found: tuple[pl.DataFrame, dict[str, str]]) -> None:
    """Of all traces, those that a rule that is not about training finds something in."""
    frame, names = found
    rows = frame.filter(~pl.col("rule").is_in(ABOUT_TRAINING), verdict="finding")
    assert {(row["rule"], names[row["trace_id"]]) for row in rows.iter_rows(named=True)} == set()
