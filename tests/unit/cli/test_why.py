"""``tbd-trace why`` and ``whatif``: formats, exit codes and messages."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import tbd_trace
from asked_once import ask_once
from corpus import ROOT
from made_nsys import KERNEL, profile, write
from tbd_trace.analysis.checks import evaluate
from tbd_trace.cli.main import app
from tbd_trace.errors import UsageError
from tbd_trace.why.cause_names import cause_names
from tbd_trace.why.changes import CHANGES, parse_change
from tbd_trace.why.screen import markdown

pytestmark = pytest.mark.usefixtures("sample_cache")
LABELS = ["Where a step goes", "rest", "Try first", "Expect", "After that", "Warm-up"]
SAMPLE = ROOT / "data" / "samples" / "synthetic_cnn"
RULES = ["OBS04", "OBS08", "OCC01", "OCC02"]  # that have findings about its causes


@pytest.fixture(autouse=True)
def evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ask_once(monkeypatch, "tbd_trace.analysis.checks.behind_causes.evaluate")


def invoke(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


def answer(*words: object) -> dict[str, Any]:
    result = invoke(*words, "--format", "json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@pytest.mark.slow
def test_json_is_one_object_with_ranked_causes() -> None:
    found = answer("why", SAMPLE)
    causes = found["causes"]
    shares = [cause["share_pct"] for cause in causes]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(100, abs=0.1)
    assert {cause["cause"] for cause in causes} <= set(cause_names())
    assert found["steps"] == found["base"]["steps_used"] == 10
    assert found["base"]["left_out"] == [{"reason": "warm-up", "steps": 2}]
    assert found["change"] == causes[0]["cause"] == "gpu_matmul_no_tensor_core"
    assert causes[1]["cause"] == "input_pipeline"
    assert causes[1]["evidence"].endswith("in a data range, 10 of 10 steps")
    # Formulas of the sample: nine steps of 2.56 ms on average, and a last one that ends with its
    # range, 37.5 µs before the next would begin.
    assert found["judged_step_ns"] == pytest.approx(2_560_000 - 3_750, rel=1e-6)
    assert abs(found["replay_error_pct"]) < 0.5
    for cause in causes:
        if cause["best_step_ns"] is not None:
            assert cause["best_step_ns"] <= cause["worst_step_ns"]


@pytest.mark.slow
def test_a_file_in_place_of_a_command_asks_why() -> None:
    asked = invoke("why", SAMPLE, "--all")
    short = invoke(SAMPLE, "--all")
    assert (short.exit_code, short.stdout) == (0, asked.stdout)


@pytest.mark.slow
def test_the_screen_fits_and_names_change_and_gain() -> None:
    result = invoke("why", SAMPLE)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].startswith("synthetic_cnn/timeline.sqlite · Nsight Systems · NVIDIA A100")
    assert "10 of 12 steps (2 warm-up): 2.556 ms a step (2.537 … 2.565)" in result.stdout
    assert max(map(len, lines)) <= 80
    said = answer("why", SAMPLE)
    (cause,) = [one for one in said["causes"] if one["cause"] == said["change"]]
    assert cause["likely_step_ns"] == said["try_first"]["likely"]
    assert "in 8 of 10 cases)" in " ".join(result.stdout.split())
    assert [label for label in LABELS if label in result.stdout] == LABELS


@pytest.mark.slow
def test_all_and_markdown_list_the_kernels_by_kind() -> None:
    assert "GPU normalization" in invoke("why", SAMPLE, "--all").stdout
    table = invoke("why", SAMPLE, "--format", "markdown").stdout
    assert "| cause | share | likely | evidence | advice |" in table


@pytest.mark.slow
def test_markdown_escapes_names_of_the_trace() -> None:
    one = tbd_trace.open(SAMPLE).why().slowest
    cause = replace(one.causes[0], evidence="the GPU is idle inside a|b")
    rows = markdown(replace(one, causes=[cause])).splitlines()
    (shown,) = [line for line in rows if line.startswith(f"| {cause.title}")]
    assert r"| the GPU is idle inside a\|b |" in shown


@pytest.mark.slow
def test_all_shows_the_findings_behind_causes() -> None:
    expected = {
        row["rule"]: row["reason"]
        for row in evaluate(tbd_trace.open(SAMPLE), RULES).to_dicts()
        if row["verdict"] == "finding"
    }
    causes = {
        cause["cause"]: cause["findings"] for cause in answer("why", SAMPLE, "--all")["causes"]
    }
    assert expected.keys() == set(RULES)
    assert [found["rule"] for found in causes["input_pipeline"]] == ["OBS04"]
    assert {found["rule"] for found in causes["gpu_matmul_no_tensor_core"]} == {
        "OBS08", "OCC01", "OCC02"
    }  # fmt: skip
    for found in (found for some in causes.values() for found in some):
        assert found["reason"] == expected[found["rule"]]
    assert "findings" not in answer("why", SAMPLE)["causes"][0]
    text = " ".join(invoke("why", SAMPLE, "--all").stdout.split())
    assert "OCC02 (GPU kernels): kernels that fill only" in text


@pytest.mark.slow
def test_fail_on_a_share() -> None:
    assert invoke("why", SAMPLE, "--fail-on", "communication:5").exit_code == 0
    result = invoke("why", SAMPLE, "--fail-on", "input_pipeline:5")
    assert result.exit_code == 1
    assert "error: why: input pipeline takes 11.8 %" in result.stderr
    for wrong in ("hosts:5", "host:much", "host"):
        result = invoke("why", SAMPLE, "--fail-on", wrong)
        assert result.exit_code == 2, wrong
        assert len(result.stderr.splitlines()) == 1


@pytest.mark.slow
def test_parameters_of_why() -> None:
    assert answer("why", SAMPLE, "--set", "assume_training=true") == answer("why", SAMPLE)
    for wrong in ("no_such=1", "assume_training=maybe", "assume_training"):
        result = invoke("why", SAMPLE, "--set", wrong)
        assert result.exit_code == 2, wrong
        assert len(result.stderr.splitlines()) == 1


@pytest.mark.slow
def test_whatif_lists_predicts_and_combines() -> None:
    listed = invoke("whatif", "--list").stdout
    assert [line.split()[0] for line in listed.splitlines()] == list(CHANGES)
    one = answer("whatif", SAMPLE, "--change", "overlap_copies")
    both = answer("whatif", SAMPLE, "--change", "overlap_copies", "--change", "graph")
    assert both["step_ns"] <= one["step_ns"] <= one["now_step_ns"]
    assert both["change"] == "overlap_copies + graph"
    assert both["gain_pct"] == pytest.approx(100 * (both["now_step_ns"] / both["step_ns"] - 1))
    assert one["validated_by"] is None
    text = invoke("whatif", SAMPLE, "--change", "gpu=H100 SXM5").stdout
    assert "estimated, unvalidated" in text


@pytest.mark.parametrize(
    "change",
    [
        "faster", "workers", "workers=2", "workers=2:0", "workers=a:b", "comm=x0", "comm", "amp=2",
        "amp=", "scale=conv", "scale=(:2", "scale=conv:-1", "drop=(", "drop", "gpu=none such", "",
    ],
)  # fmt: skip
def test_an_invalid_change(change: str) -> None:
    result = invoke("whatif", SAMPLE, "--change", change)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: --change")
    assert len(result.stderr.splitlines()) == 1


def test_whatif_without_a_change() -> None:
    result = invoke("whatif", SAMPLE)
    assert result.exit_code == 2
    assert "whatif --list" in result.stderr


def test_parsed_arguments() -> None:
    assert parse_change("workers=0:4").workers == (1, 4)
    assert parse_change("comm=x2").factor == parse_change("comm=×2").factor == 0.5
    assert parse_change("comm=free").factor == 0
    assert parse_change("scale=a:b:0.5").pattern == "a:b"
    with pytest.raises(UsageError, match="unknown; use one of input, workers"):
        parse_change("x")


@pytest.mark.slow
def test_a_trace_without_kernels(tmp_path: Path) -> None:
    tables = profile()
    tables[KERNEL] = []
    path = write(tmp_path / "idle.sqlite", tables)
    for command in (["why"], ["whatif", "--change", "amp"]):
        result = invoke(*command, path)
        assert result.exit_code == 3
        assert "why needs single kernels" in result.stderr


@pytest.mark.slow
def test_counters_alone() -> None:
    result = invoke("why", SAMPLE / "metrics.csv")
    assert result.exit_code == 3
    assert "why needs GPU operations; collect a timeline" in result.stderr


@pytest.mark.slow
def test_the_python_interface() -> None:
    traces = tbd_trace.open(SAMPLE)
    found = traces.why()
    assert found.to_dict() == answer("why", SAMPLE)
    assert found._repr_html_().startswith("<pre>synthetic_cnn/timeline.sqlite")
    assert repr(found) == (
        "<Why of synthetic_cnn/timeline.sqlite: GPU matrix work without tensor cores 54 %>"
    )
    assert traces.whatif("amp").to_dict() == answer("whatif", SAMPLE, "--change", "amp")
