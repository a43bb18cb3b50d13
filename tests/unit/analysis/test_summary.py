"""One page about traces, with limits."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tbd_trace
from corpus import ROOT
from tbd_trace.analysis import summary
from tbd_trace.cli.main import app

SAMPLE = ROOT / "data" / "samples" / "synthetic_cnn"
pytestmark = pytest.mark.usefixtures("sample_cache")


@pytest.fixture
def traces(elsewhere: Path) -> tbd_trace.Traces:
    return tbd_trace.open(SAMPLE)


def sections(page: str) -> list[str]:
    return re.findall(r"^## (.*)$", page, re.MULTILINE)


@pytest.mark.slow
def test_the_page_has_the_answers_of_the_queries(elsewhere: Path, traces: tbd_trace.Traces) -> None:
    done = CliRunner().invoke(app, ["summary", str(SAMPLE), "--format", "markdown"])
    assert done.exit_code == 0, done.stderr
    page = done.stdout
    assert sections(page) == [
        *("Recording", "Why it is slow", "Findings", "Iterations", "GPU utilization"),
        *("GPU idle time", "Layers", "Kernels"),
    ]
    cause = traces.why().slowest.causes[0]
    assert f"| {cause.title} | {cause.share_pct:.1f} % |" in page
    for row in traces.query("idle_causes").to_dicts():
        assert f"| {row['title']} | {row['idle_ns']:,} |" in page
    found = traces.check().frame.filter(verdict="finding")
    assert f"{found.height} findings" in page
    assert all(f"| {rule} |" in page for rule in found["rule"])
    # A word or number, or a single other character, is at most one token of usual tokenizers, if
    # long words count for one per four characters.
    words = re.findall(r"\w+|[^\w\s]", page)
    assert sum(-(-len(word) // 4) for word in words) <= 4_000


def test_sections_that_do_not_fit_are_named() -> None:
    parts = [("short", lambda: "a\n"), ("long", lambda: "b" * 900 + "\n"), ("last", lambda: "c\n")]
    page = "".join(summary._fitting(parts, 500))
    assert sections(page) == ["short", "last"]
    assert page.endswith("Left out, as the page has a limit: long.\n")
    assert len(page) <= 500


def test_long_names_are_cut(traces: tbd_trace.Traces) -> None:
    kernels = traces.query("kernel_summary")
    shown = summary._table(kernels, ("kernel_name",))
    names = [line.strip("| ").replace("\\", "") for line in shown.splitlines()[2:]]
    assert len(names) == 8
    assert max(map(len, names)) == 80
    for name, full in zip(names, kernels["kernel_name"], strict=False):
        assert name == full or (name.endswith("…") and full.startswith(name[:-1]))
