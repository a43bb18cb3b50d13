"""`tbd-trace check`: which rules, in what order and form, and with which exit code."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from typer.testing import CliRunner, Result

import tbd_trace
from asked_once import ask_once
from corpus import ROOT, reference_rows
from query_files import CHECKS, each_file, valid_headers
from tbd_trace.analysis.checks import evaluate, findings_from, select
from tbd_trace.analysis.checks.rules import rule_of
from tbd_trace.analysis.checks.text import render, summary
from tbd_trace.cli.main import app
from tbd_trace.errors import CannotAnswerError, UsageError
from tbd_trace.query import Catalogue, Query
from tbd_trace.query.catalogue import read_query
from tbd_trace.query.header import CHECK_COLUMNS
from tbd_trace.store import Database

SAMPLE = ROOT / "data" / "samples" / "synthetic_cnn"
COLUMNS = [
    *("rule", "title", "verdict", "severity", "trace_id", "value", "threshold", "unit"),
    *("evidence", "reason", "advice", "query"),
]
OWN = {
    "ADV01",
    "COM01",
    "MEM01",
    "MEM02",
    "MEM03",
    "MEM04",
    "MEM05",
    "NET02",
    "NET03",
    "NET04",
}  # not in the reference


def check(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["check", *arguments])


@pytest.fixture(scope="module")
def rules() -> dict[str, Query]:
    """Return the checks by rule; tests that read all of them skip if one header is invalid."""
    with valid_headers():
        return {rule_of(query).rule: query for query in Catalogue().checks()}


@pytest.fixture
def sample(sample_cache: Path, rules: dict[str, Query], monkeypatch: pytest.MonkeyPatch) -> str:
    """Run in an empty directory and return the path of the sample, which is evaluated once."""
    ask_once(monkeypatch, "tbd_trace.analysis.checks.evaluate")
    return str(SAMPLE)


# the rules themselves


@each_file(CHECKS)
def test_headers_of_rules_are_complete(path: Path) -> None:
    query = read_query(path)
    rule = rule_of(query)
    assert list(query.columns) == list(CHECK_COLUMNS)
    assert set(CHECK_COLUMNS) < set(COLUMNS)
    assert rule.scope in {"trace", "sweep", "job", "cross-run"}
    assert rule.thresholds in {"proposed", "recalled", "definition"}
    for text in (rule.advice, rule.collect):
        assert text == text.strip() != ""
        assert not text.endswith(".")


def test_every_check_has_a_rule_id(rules: dict[str, Query]) -> None:
    assert sorted(query.path for query in rules.values()) == CHECKS


def test_files_are_the_rules_of_the_reference(rules: dict[str, Query]) -> None:
    # Its rules about the network ask what queries answer; their numbers have other rules.
    reference = {
        row["rule_id"]: row
        for row in reference_rows("observations_rules.csv")
        if not row["rule_id"].startswith("NET")
    }
    page = (ROOT / "docs" / "reference" / "checks.md").read_text(encoding="utf-8")
    unanswered = page.split("## Rules without an answer")[1]
    for rule, row in reference.items():
        if rule not in rules:
            assert f"`{rule}`" in unanswered
            continue
        query, declared = rules[rule], rule_of(rules[rule])
        assert query.name == row["name"].replace("-", "_")
        assert declared.thresholds.upper() in row["threshold_evidence"].upper()
        for number in re.findall(r"\d+(?:\.\d+)?", row["default_threshold"]):
            if number not in {"100", "4"}:  # per 100 iterations; four waves are a parameter, too
                assert float(number) in _thresholds(query), (rule, number)
    assert rules.keys() - reference.keys() == OWN


def _thresholds(query: Query) -> set[float]:
    """Return the thresholds of a rule, also as a percentage and as a share."""
    found = {float(p.default) for p in query.params.values() if not isinstance(p.default, str)}
    recalled = {2.0, 3.0} if rule_of(query).rule == "OBS07" else set()
    scaled = {factor * value for value in found for factor in (0.01, 100)}
    return found | scaled | {0.0} | recalled


def test_every_rule_and_parameter_is_documented(rules: dict[str, Query]) -> None:
    page = (ROOT / "docs" / "reference" / "checks.md").read_text(encoding="utf-8")
    for rule, query in rules.items():
        section = page.split(f"\n### {rule}\n", 1)[1].split("\n### ", 1)[0]
        for name, param in query.params.items():
            assert f"| `{name}` | `{param.default}` |" in section
        assert query.question in section


def test_a_threshold_of_several_rules_is_the_same(rules: dict[str, Query]) -> None:
    known: dict[str, Any] = {}
    for query in rules.values():
        for name, param in query.params.items():
            assert known.setdefault(name, param) == param, name


def test_a_header_without_what_a_check_needs_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "own.sql"
    path.write_text('/*\ntitle = "Own"\n[check]\nrule = "X1"\n*/\nSELECT 1')
    with pytest.raises(UsageError, match="invalid header"):
        read_query(path)


@pytest.mark.parametrize("name", ["OBS04", "obs04", "gpu_idle_small_batch", "gpu-idle-small-batch"])
def test_rules_go_by_id_and_by_name(rules: dict[str, Query], name: str) -> None:
    assert [query.name for query in select([name, "OBS04"])] == ["gpu_idle_small_batch"]


def test_rules_are_those_asked_for_in_their_order(rules: dict[str, Query]) -> None:
    assert [rule_of(query).rule for query in select(["ROB04", "OBS01"])] == ["OBS01", "ROB04"]
    assert select() == select([]) == list(rules.values())
    with pytest.raises(UsageError, match="did you mean gpu_idle_small_batch"):
        select(["gpu_idle_batch"])


# evaluating


@pytest.fixture(scope="module")
def evaluated(sample_database: Database, rules: dict[str, Query]) -> pl.DataFrame:
    from tbd_trace.api import Traces

    return evaluate(Traces(sample_database, sample_database.trace_ids()))


@pytest.mark.slow
def test_findings_come_first_the_worst_before_the_others(
    evaluated: pl.DataFrame, rules: dict[str, Query]
) -> None:
    assert evaluated.columns == COLUMNS
    assert evaluated["rule"].n_unique() == evaluated.height == len(rules)
    order = {"severe": 0, "warning": 1, "note": 2, "not evaluable": 3, "pass": 4}
    keys = [
        (order[row["severity"] or row["verdict"]], row["rule"])
        for row in evaluated.iter_rows(named=True)
    ]
    assert keys == sorted(keys)


@pytest.mark.slow
def test_rows_say_what_their_verdict_needs(
    evaluated: pl.DataFrame, rules: dict[str, Query]
) -> None:
    for row in evaluated.iter_rows(named=True):
        assert row["reason"]
        assert (row["severity"] is not None) == (row["verdict"] == "finding")
        assert (row["advice"] is None) == (row["verdict"] == "pass")
        assert (row["value"] is None) == (row["verdict"] == "not evaluable")
        assert (row["evidence"] is None) == (row["verdict"] == "not evaluable")
        per_trace = rule_of(rules[row["rule"]]).scope == "trace"
        assert (row["trace_id"] is not None) == per_trace


@pytest.mark.slow
def test_an_evaluation_of_rules_and_thresholds_of_ones_own(sample: str) -> None:
    values = []
    for window, span in (
        ("trace", "the whole trace"),
        ("steady", "iterations of the steady state"),
    ):
        settings = {"min_busy_pct": "60", "window": window}
        frame = evaluate(tbd_trace.open(sample), ["OBS04"], settings)
        assert frame["verdict"].to_list() == ["pass"]
        assert f"{span};" in frame["reason"][0]
        assert frame.schema["value"] == pl.Float64
        values += frame["value"].to_list()
    assert values[0] < values[1]  # set-up and warm-up leave the GPU idle
    frame = evaluate(tbd_trace.open(sample), ["OBS04"], {"min_busy_pct": str(values[1] + 0.1)})
    assert frame["verdict"].to_list() == ["finding"]


def test_findings_from_a_severity_on(evaluated: pl.DataFrame) -> None:
    assert findings_from(evaluated, "severe").is_empty()
    assert findings_from(evaluated, "warning")["rule"].to_list() == ["OBS04"]
    assert set(findings_from(evaluated, "note")["rule"]) == {
        *("NET04", "OBS04", "OBS08", "OCC01", "OCC02")
    }


def test_without_a_trace_there_is_nothing_to_ask(tmp_path: Path, rules: dict[str, Query]) -> None:
    from tbd_trace.api import Traces

    with pytest.raises(CannotAnswerError, match="there are no traces"):
        evaluate(Traces(Database(tmp_path / "empty.duckdb"), []))


# the command


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((), 0),
        (("--fail-on", "note"), 1),
        (("--fail-on", "warning"), 1),
        (("--fail-on", "severe"), 0),
        (("--rule", "OBS04", "--set", "min_busy_pct=60", "--fail-on", "note"), 0),
        (("--rule", "OBS01", "--rule", "OBS05", "--fail-on", "note"), 3),
        (("--rule", "OBS99"), 2),
        (("--fail-on", "awful"), 2),
        (("--set", "nothing=1"), 2),
        (("--set", "by=layer"), 2),
        (("--set", "min_busy_pct"), 2),
        (("--set", "min_busy_pct=much"), 2),
        (("--format", "xml"), 2),
        (("--rule", "OBS04", "--set", "iteration_pattern=("), 2),
    ],
)
def test_exit_codes(sample: str, arguments: tuple[str, ...], code: int) -> None:
    result = check(sample, *arguments)
    assert result.exit_code == code, result.output
    assert result.stderr.count("\n") == (code != 0)
    assert result.stderr.startswith("error: ") == (code != 0)


@pytest.mark.slow
def test_what_failed_is_named(sample: str) -> None:
    said = check(sample, "--rule", "OBS04", "--set", "iteration_pattern=(").stderr
    assert said.startswith("error: check with iteration_pattern=(: ")
    said = check(sample, "--fail-on", "warning").stderr
    assert said == "error: check: 1 finding at or above warning (OBS04)\n"
    said = check(sample, "--rule", "OBS05").stderr
    assert said.startswith("error: check: no rule could be evaluated")


@pytest.mark.slow
def test_json_for_programs_is_complete(sample: str, rules: dict[str, Query]) -> None:
    result = check(sample, "--format", "json", "--fail-on", "severe")
    assert result.exit_code == 0
    rows = json.loads(result.stdout)
    assert [list(row) for row in rows] == [COLUMNS] * len(rules)
    first = rows[0]
    assert (first["rule"], first["severity"], first["threshold"]) == ("OBS04", "warning", 80.0)
    assert first["query"] == "gpu_idle_small_batch"
    # Ten iterations with kernels for 1 778 000 ns each, in 9 periods of 2 560 000 ns and the last
    # range, which takes 2 522 500 ns.
    assert first["value"] == pytest.approx(100 * 10 * 1778 / (9 * 2560 + 2522.5))


@pytest.mark.slow
def test_a_file_is_written_even_where_the_gate_trips(sample: str, rules: dict[str, Query]) -> None:
    result = check(sample, "-o", "findings.json", "--fail-on", "note")
    assert result.exit_code == 1
    assert len(json.loads(Path("findings.json").read_text())) == len(rules)
    assert check(sample, "-o", "findings.txt").exit_code == 0
    assert Path("findings.txt").read_text() == check(sample).stdout


@pytest.mark.slow
def test_the_text_is_readable_at_100_columns(sample: str) -> None:
    lines = check(sample).stdout.splitlines()
    assert max(map(len, lines)) <= 100
    assert lines[0] == "WARNING  OBS04  GPU idle"
    assert lines[-1] == "5 findings (1 warning, 4 notes), 6 passed, 17 not evaluable"
    assert not any(line.lstrip().startswith("%") for line in lines)
    text = " ".join(" ".join(lines).split())
    assert "time without a kernel: input pipeline" in text
    assert "advice: feed the GPU faster: more loader workers, prefetch" in text
    assert "collect:" not in text
    shown = check(sample, "-v").stdout
    assert "collect: captures of one model with three or more batch sizes" in shown


@pytest.mark.slow
def test_the_same_said_of_several_traces_is_said_once(
    elsewhere: Path, rules: dict[str, Query]
) -> None:
    for name in ("one", "two", "three"):
        shutil.copytree(SAMPLE, elsewhere / name, ignore=shutil.ignore_patterns("*.csv"))
        document = json.loads((elsewhere / name / "capture.json").read_text())
        document |= {"capture_id": name, "files": document["files"][:1]}
        (elsewhere / name / "capture.json").write_text(json.dumps(document))
    lines = check("one", "two", "three", "--rule", "OBS09", "--rule", "OBS04").stdout
    assert lines.count("WARNING  OBS04") == 3
    assert "         two\n" in lines
    about = "one, three and 1 more"
    assert f"  OBS09  {about}: the trace has no CPU samples" in lines


def test_rules_without_data_are_counted_unless_asked_for() -> None:
    row = dict.fromkeys(COLUMNS) | {"verdict": "not evaluable", "trace_id": "a", "reason": "why"}
    rows = [row | {"rule": rule} for rule in ("OBS04", "ROB01")]
    schema = {name: pl.Float64 if name in {"value", "threshold"} else pl.String for name in COLUMNS}
    frame = pl.DataFrame(rows, schema=schema)
    brief = render(frame, {"a": "a"}, every=False)
    assert brief == ("2 rules need more data (--all)\n\n0 findings, 0 passed, 2 not evaluable\n")
    for text in (render(frame, {"a": "a"}), render(frame, {"a": "a"}, every=False, verbose=True)):
        assert "OBS04, ROB01  why" in text


def test_rules_with_the_same_reason_are_shown_together() -> None:
    row = dict.fromkeys(COLUMNS) | {"verdict": "not evaluable", "trace_id": "a", "reason": "why"}
    rows = [row | {"rule": rule} for rule in ("OBS04", "ROB01")]
    other = row | {"rule": "OBS04", "trace_id": "b"}
    schema = {name: pl.Float64 if name in {"value", "threshold"} else pl.String for name in COLUMNS}
    names = {"a": "a.sqlite", "b": "b\x1b.sqlite"}
    text = render(pl.DataFrame([*rows, other], schema=schema), names)
    assert "  OBS04  a.sqlite, b\\x1b.sqlite: why\n" in text  # no control character
    assert "  ROB01  a.sqlite: why\n" in text
    text = render(pl.DataFrame(rows, schema=schema), names)
    assert "  OBS04, ROB01  a.sqlite: why\n" in text
    assert summary(pl.DataFrame(rows, schema=schema)) == "0 findings, 0 passed, 2 not evaluable"


def test_rules_are_listed(elsewhere: Path, rules: dict[str, Query]) -> None:
    shown = check("--list").stdout.splitlines()
    assert shown[0].split() == ["rule", "name", "scope", "question"]
    assert len(shown) == 1 + len(rules)
    (row,) = json.loads(check("--list", "--rule", "rob01", "--format", "json").stdout)
    assert row["name"] == "unstable_window"


@pytest.mark.slow
def test_a_sweep_of_captures(elsewhere: Path, rules: dict[str, Query]) -> None:
    """Four batch sizes of the sample, whose throughputs fall at the last."""
    for batch_size, rate in ((8, 5000.0), (16, 9000.0), (32, 12800.0), (64, 11000.0)):
        place = elsewhere / f"b{batch_size}"
        shutil.copytree(SAMPLE, place, ignore=shutil.ignore_patterns("*.csv"))
        document = json.loads((place / "capture.json").read_text())
        document |= {"capture_id": place.name, "files": document["files"][:1]}
        document |= {"batch_size": batch_size, "peak_device_bytes": batch_size * 2**30}
        document["throughput"]["samples_per_second"] = rate
        (place / "capture.json").write_text(json.dumps(document))
    captures = ("b8", "b16", "b32", "b64")
    rules = [part for rule in ("OBS01", "OBS02", "OBS12") for part in ("--rule", rule)]
    result = check(*captures, *rules, "--format", "json")
    assert result.exit_code == 0, result.output
    rows = {row["rule"]: row for row in json.loads(result.stdout)}
    assert {rule: row["verdict"] for rule, row in rows.items()} == {
        "OBS01": "finding", "OBS02": "pass", "OBS12": "finding",
    }  # fmt: skip
    assert rows["OBS01"]["value"] == pytest.approx(0.8)  # 1 - 6 * 2 / (4 * 15)
    assert rows["OBS12"]["value"] == pytest.approx(11_000 / 12_800 - 1)  # twice the memory


@pytest.mark.slow
def test_a_rule_runs_pasted_into_a_shell(
    sample_database: Database, rules: dict[str, Query]
) -> None:
    """With what it builds on, and without tbd-trace; the headers' tests compare the rows."""
    from tbd_trace.query import script

    with duckdb.connect(str(sample_database.path), read_only=True) as connection:
        for statement in connection.extract_statements(script(rules["OBS08"])):
            connection.execute(statement)
        row = connection.fetchall()[0]
    assert row[1:3] == ("finding", "note")
