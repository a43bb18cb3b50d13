"""diff: the verdict, the forms of the answer, and the command line with its gate."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

from asked_once import ask_once
from corpus import ROOT
from fast import one_in
from made_nsys import GPU, KERNEL, NVTX, RUNTIME, call, gpu, kernel, nvtx, profile, write
from tbd_trace.analysis.diff.verdict import Word, time, verdict_on
from tbd_trace.cli.diff import percent
from tbd_trace.cli.main import app
from tbd_trace.errors import UsageError

SAMPLE = ROOT / "data" / "samples" / "synthetic_cnn"
PARTS = ("comparability", "work", "iterations", "utilization", "memory", "layers", "kernels")


@pytest.fixture(autouse=True)
def compared_once(sample_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run in an empty directory; runs of equal content are ingested and compared once."""
    ask_once(monkeypatch, "tbd_trace.analysis.diff.compare")
    return sample_cache


def run_of(folder: Path, name: str, factor: float, iterations: int = 12) -> Path:
    """Write a run whose iterations last about 1 ms times a factor; half of each is a kernel."""
    tables = {name: rows for name, rows in profile().items() if "CUPTI" not in name}
    tables[KERNEL], tables[RUNTIME], tables[NVTX] = [], [], []
    start = 1_000_000
    for number in range(iterations):
        length = int(factor * (1_000_000 + 1000 * (number * 5 % 7)))
        tables[NVTX].append(nvtx(59, start=start, end=start + length - 500, text=f"step {number}"))
        launched = {"correlationId": 1000 + number}
        tables[RUNTIME].append(call(4, start=start + 10, end=start + 20, **launched))
        tables[KERNEL].append(kernel(start=start + 100, end=start + 100 + length // 2, **launched))
        start += length
    return write(folder / name, tables)


def invoke(*words: object) -> Any:
    return CliRunner().invoke(app, ["diff", *map(str, words)])


@pytest.mark.slow
def test_a_trace_with_itself() -> None:
    result = invoke(SAMPLE, SAMPLE, "--format", "json", "--max-slowdown", "0%")
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert answer["verdict"]["word"] == "no change beyond noise"
    assert answer["verdict"]["change_pct"] == 0
    assert not any(row["differs"] for row in answer["comparability"])
    assert {row["change_ns"] for part in ("layers", "kernels") for row in answer[part]} == {0}
    assert {row["change_points"] for row in answer["utilization"]} == {0}
    shown = invoke(SAMPLE, SAMPLE).stdout
    assert "no change beyond noise" in shown
    assert "no kernel changed beyond noise" in shown
    assert "no layer's time changed" in shown
    assert "no known difference" in shown


def gpu_run(path: Path, gpus: int = 1, name: str = "A100", kernels: bool = True) -> Path:
    """Write a run of 12 steps of 10 ms, with a process and a kernel in each step per GPU."""
    tables = {name: rows for name, rows in profile().items() if "CUPTI" not in name}
    tables[KERNEL], tables[RUNTIME], tables[NVTX] = [], [], []
    tables[GPU] = [gpu(number, number, name) for number in range(gpus)]
    for number in range(gpus):
        pid = 100 * (number + 1)
        for step in range(12):
            start = 1_000_000 + step * 10_000_000
            text = f"step {step}"
            tables[NVTX].append(nvtx(59, pid, start=start, end=start + 9_900_000, text=text))
            launch = {"correlationId": 1000 + step}
            tables[RUNTIME].append(call(4, pid, start=start + 10, end=start + 20, **launch))
            if kernels:
                tables[KERNEL].append(
                    kernel(pid, start=start + 100, end=start + 6000, deviceId=number, **launch)
                )
    return write(path, {name: rows for name, rows in tables.items() if rows})


@pytest.mark.slow
def test_the_same_content_under_another_name_is_named(elsewhere: Path) -> None:
    one, other = gpu_run(elsewhere / "a.sqlite"), elsewhere / "b.sqlite"
    other.write_bytes(one.read_bytes())
    for pair in ((one, one), (one, other)):
        result = invoke(*pair, "--format", "json")
        verdict = json.loads(result.stdout)["verdict"]
        assert verdict["sentence"].startswith("A and B are the same trace, file for file")
        assert (verdict["word"], verdict["change_pct"]) == ("no change beyond noise", 0)
    assert "A and B are the same trace" not in invoke(one, run_of(elsewhere, "c", 1)).stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("b", "said"),
    one_in(
        3,
        [
            ({"gpus": 2}, "GPUs used (1 in A, 2 in B)"),
            ({"name": "H100"}, "device (A100 in A, H100 in B)"),
            ({"kernels": False}, "GPU work is recorded in A, not recorded in B."),
        ],
    ),
)
def test_what_the_gpus_differ_in_is_named_beside_the_verdict(
    elsewhere: Path, b: dict[str, Any], said: str
) -> None:
    runs = gpu_run(elsewhere / "a.sqlite"), gpu_run(elsewhere / "b.sqlite", **b)
    caveats = " ".join(json.loads(invoke(*runs, "--format", "json").stdout)["verdict"]["caveats"])
    assert said in caveats
    assert said in invoke(*runs).stdout.split("Comparability")[0]


@pytest.mark.slow
def test_gate(elsewhere: Path) -> None:
    a, b = run_of(elsewhere, "a.sqlite", 1), run_of(elsewhere, "b.sqlite", 1.1)
    assert invoke(a, b).exit_code == 0
    assert invoke(a, b, "--max-slowdown", "15%").exit_code == 0
    tripped = invoke(a, b, "--max-slowdown", "5")
    assert tripped.exit_code == 1
    assert "B is 10.00 % slower than A, beyond noise; --max-slowdown allows 5 %" in tripped.stderr
    assert "slower" in tripped.stdout  # the answer is there all the same
    assert invoke(b, a, "--max-slowdown", "5%").exit_code == 0
    few = run_of(elsewhere, "few.sqlite", 2, iterations=1)  # it counts
    unknown = invoke(a, few, "--max-slowdown", "5%")
    assert unknown.exit_code == 3
    assert "--max-slowdown cannot be checked: too few iterations" in unknown.stderr


@pytest.mark.parametrize("text", ["x", "", "-5%", "5%%", "nan", "inf"])
def test_wrong_percentages(text: str) -> None:
    result = invoke(SAMPLE, SAMPLE, f"--max-slowdown={text}")
    assert result.exit_code == 2
    assert "expected a percentage, such as 5%" in result.stderr
    assert result.stdout == ""


def test_percentages() -> None:
    assert [percent("--x", text) for text in ("5%", "5", " 2.5 %", "0")] == [5, 5, 2.5, 0]
    with pytest.raises(UsageError):
        percent("--x", "five")


def test_wrong_names() -> None:
    assert invoke(SAMPLE, "nothing").exit_code == 2
    assert invoke(SAMPLE).exit_code == 2
    assert invoke(SAMPLE, SAMPLE, "-o", "page.doc").exit_code == 2
    assert not Path("page.doc").exists()


@pytest.mark.slow
def test_traces_of_a_database(elsewhere: Path) -> None:
    a, b = run_of(elsewhere, "a.sqlite", 1), run_of(elsewhere, "b.sqlite", 0.5)
    assert CliRunner().invoke(app, ["ingest", str(a), str(b), "--db", "two.duckdb"]).exit_code == 0
    (elsewhere / "there").mkdir()
    a.rename(elsewhere / "there" / "a")
    b.rename(elsewhere / "there" / "b")
    result = invoke("a.sqlite", "b.sqlite", "--db", "two.duckdb")
    assert result.exit_code == 0, result.output
    assert "B against A: faster; work unknown (" in result.stdout
    mixed = invoke("a.sqlite", elsewhere / "there" / "b", "--db", "two.duckdb")
    assert mixed.exit_code == 0, mixed.output
    assert mixed.stdout == result.stdout.replace("B: b.sqlite", "B: b")


@pytest.mark.slow
def test_forms(elsewhere: Path) -> None:
    a, b = run_of(elsewhere, "a.sqlite", 1), run_of(elsewhere, "b.sqlite", 2)
    markdown = invoke(a, b, "--format", "markdown").stdout
    assert [line for line in markdown.splitlines() if line.startswith("## ")] == [
        "## Comparability",
        "## Work of two runs",
        "## Iterations of two runs",
        "## Utilization of two runs",
        "## Memory of two runs",
        "## Layers of two runs",
        "## Kernels of two runs",
    ]
    rows = list(csv.DictReader(io.StringIO(invoke(a, b, "--format", "csv").stdout)))
    assert [row["verdict"] for row in rows[:2]] == ["slower", "unknown"]
    assert float(rows[0]["change"]) == pytest.approx(100, abs=0.1)
    assert {row["part"] for row in rows} == {"verdict", *PARTS}
    assert invoke(a, b, "-o", "rows.parquet").exit_code == 0
    assert pl.read_parquet("rows.parquet").height == len(rows)
    answer = json.loads(invoke(a, b, "--format", "json").stdout)
    # Runs of one GPU have no rows about communication, but the keys.
    assert list(answer) == [
        *("verdict", "work", "a", "b", "comparability", "iterations", "utilization", "ranks"),
        *("collectives", "memory", "memory_lines", "layers", "kernels"),
    ]
    assert answer["ranks"] == answer["collectives"] == []
    assert answer["a"]["names"] == ["a.sqlite"]
    assert list(answer["work"]) == [
        *("verdict", "differs", "beside", "reason", "units_ratio", "unit", "quantities"),
    ]


@pytest.mark.slow
def test_page(elsewhere: Path) -> None:
    # No other test has this content, which would have the name of its first file.
    a, b = run_of(elsewhere, "a.sqlite", 1), run_of(elsewhere, "<b>.sqlite", 3)
    result = invoke(a, b, "-o", "page.html", "--max-slowdown", "5%")
    assert result.exit_code == 1
    page = Path("page.html").read_text()
    low, high = (json.loads(invoke(a, b, "--format", "json").stdout)["verdict"][name]
                 for name in ("low_pct", "high_pct"))  # fmt: skip
    assert page.count(f"{low:+.2f} to {high:+.2f}") == 2  # in the sentence and as a figure
    assert "<svg" in page
    assert "&lt;b&gt;.sqlite" in page
    assert "<b>.sqlite" not in page
    for title in ("Verdict", "Comparability", "Iterations of two runs", "Kernels of two runs"):
        assert title in page
    assert invoke(SAMPLE, SAMPLE, "-o", "same.html").exit_code == 0
    assert "No kernel changed beyond noise" in Path("same.html").read_text()


@pytest.mark.slow
def test_limit(elsewhere: Path) -> None:
    a, b = run_of(elsewhere, "a.sqlite", 1), SAMPLE / "timeline.sqlite"
    shown = invoke(a, b, "--limit", "2").stdout
    assert "2 of 26 rows shown; --limit 0 shows all" in shown
    assert "rows shown" not in invoke(a, b, "--limit", "0").stdout


def frames(**rows: list[dict[str, Any]]) -> dict[str, pl.DataFrame]:
    """Return answers of the queries; a part that is left out has no rows."""
    columns = {
        "comparability": ("field", "a", "b", "matters"),
        "iterations": ("rank",),
        "utilization": ("measure", "a_ns", "b_ns"),
        "kernels": ("a_ns", "b_ns", "a_calls", "b_calls", "change_ns"),
    }
    empty = {name: pl.DataFrame({c: [] for c in found}) for name, found in columns.items()}
    return empty | {name: pl.DataFrame(found) for name, found in rows.items()}


def test_other_work_is_not_comparable_whatever_the_times() -> None:
    differs = {"field": "variant", "a": "4", "b": "8", "matters": "not comparable"}
    verdict = verdict_on(frames(comparability=[differs]))
    assert verdict.word is Word.NOT_COMPARABLE
    assert verdict.sentence == "variant is 4 in A, but 8 in B."
    assert verdict.change_pct is None


@pytest.mark.parametrize(("fields", "end"), [(3, "c is 1 in A, but 2 in B."), (5, "; and 2 more.")])
def test_the_first_three_reasons_are_shown(fields: int, end: str) -> None:
    rows = [
        {"field": name, "a": "1", "b": "2", "matters": "not comparable"}
        for name in "abcde"[:fields]
    ]
    sentence = verdict_on(frames(comparability=rows)).sentence
    assert sentence.startswith("a is 1 in A, but 2 in B; b is 1 in A, but 2 in B; c is 1")
    assert sentence.endswith(end)
    assert sentence.count("in A") == 3


@pytest.mark.parametrize(
    ("field", "value", "caveat"),
    [
        ("iterations told by", "anchor kernel", "detected by a repeating kernel"),
        ("iterations measured", "all iterations", "No steady state follows the warm-up"),
    ],
)
def test_how_iterations_are_known_is_a_caveat(field: str, value: str, caveat: str) -> None:
    for a, b in [(value, value), ("range", value), (value, "range"), ("range", "range")]:
        row = {"field": field, "a": a, "b": b, "matters": ""}
        caveats = [
            text for text in verdict_on(frames(comparability=[row])).caveats if caveat in text
        ]
        assert len(caveats) == (value in {a, b})
    other = {"field": "device", "a": value, "b": value, "matters": ""}
    assert not any(caveat in text for text in verdict_on(frames(comparability=[other])).caveats)


def test_uncertain_fields_are_caveats() -> None:
    row = {"field": "layer clock", "a": "gpu", "b": None, "matters": "uncertain"}
    other = row | {"field": "driver", "matters": "not comparable"}
    caveats = verdict_on(frames(comparability=[row, other])).caveats
    assert "layer clock is gpu in A, not known in B." in caveats
    assert not any("driver" in caveat for caveat in caveats)


@pytest.mark.parametrize(
    ("peaks", "sentence"),
    [
        ([(1 << 30, 2 << 30, 100.0)],
         "The memory peak is 2 GiB in B and 1 GiB in A (+100.00 %)."),
        ([(1 << 20, 1 << 20, None), (0, 5, None)],
         "The highest of 2 memory peaks is 1 MiB in B and 1 MiB in A."),
    ],
)  # fmt: skip
def test_the_highest_memory_peak_is_shown(
    peaks: list[tuple[int, int, float | None]], sentence: str
) -> None:
    rows = [
        {"measure": "peak requested", "a_bytes": a, "b_bytes": b, "change_pct": change}
        for a, b, change in peaks
    ]
    assert verdict_on(frames(memory=rows)).sentence.endswith(sentence)


def test_without_iterations_work_is_unknown_unless_nothing_differs() -> None:
    kernel_row = {"a_ns": 100, "b_ns": 90, "a_calls": 2, "b_calls": 2, "change_ns": -10}
    verdict = verdict_on(frames(kernels=[kernel_row]))
    assert verdict.word is Word.NOT_COMPARABLE
    assert "2 kernels took 90 ns in B, 2 took 100 ns in A" in verdict.sentence
    same = kernel_row | {"b_ns": 100, "change_ns": 0}
    verdict = verdict_on(frames(kernels=[same]))
    assert (verdict.word, verdict.change_pct) == (Word.NO_CHANGE, 0)
    assert verdict_on(frames()).word is Word.NOT_COMPARABLE
    assert verdict_on(frames(), same=True).word is Word.NO_CHANGE


def test_times() -> None:
    assert time(16_665_850.5) == "16.67 ms"
    assert time(1_800, signed=True) == "+1.8 µs"
    assert time(-1_800_000, signed=True) == "-1.8 ms"
    assert time(0, signed=True) == "+0 ns"
