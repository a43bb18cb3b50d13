"""``why`` on training without a GPU: a run that waits for its loader, and one that does not."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("torch")
pytest.importorskip("PIL")

from tbd_models import __main__ as program
from tbd_models.definition import Variant
from tbd_trace import open as open_traces
from tbd_trace.cli.main import app

# Two captures are trained, about 3 s each.
pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.slow]


def _captured(file: Path, *options: str) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "sys.argv",
            ["tbd_models", "run", "resnet50", "--scale=small", "--device=cpu", "--batch-size=4",
             "--warmup=1", "--iterations=6", f"--torch-trace={file}", *options],
        )  # fmt: skip
        # One block per stage instead of 3 to 6: a third of the events.
        patch.setattr(Variant, "at", lambda each, _: replace(each.small, blocks=(1, 1, 1, 1)))
        assert program.main() == 0
    return file


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return two captures of one cell: files are decoded in the step, or batches in memory."""
    folder = tmp_path_factory.mktemp("captures")
    return {
        "loader": _captured(folder / "loader.json.gz", "--input=decode"),
        "compute": _captured(folder / "compute.json.gz"),
    }


def _share_pct(file: Path, steps: int) -> tuple[float, float]:
    # The share of the phase data in the last steps, and their mean in ns, by the events alone.
    events = json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
    ranges = [event for event in events if event.get("ph") == "X"]
    marked = [e for e in ranges if e["name"].startswith("iteration ")]
    starts = sorted(float(e["ts"]) for e in marked)[-steps:]
    end = max(float(e["ts"]) + float(e["dur"]) for e in marked)
    loading = [e for e in ranges if e["name"] == "phase:data"]
    waited = sum(float(e["dur"]) for e in loading if starts[0] <= float(e["ts"]) < end)
    elapsed = end - starts[0]
    return 100 * waited / elapsed, 1000 * elapsed / steps


@pytest.mark.parametrize("name", ["loader", "compute"])
def test_shares_are_those_of_the_file(captures: dict[str, Path], name: str) -> None:
    one = open_traces(captures[name]).why().slowest
    assert one.base is not None
    assert {left.reason for left in one.base.left_out} <= {"warm-up"}
    share, step_ns = _share_pct(captures[name], one.steps)
    causes = {cause.cause: cause for cause in one.causes}
    phases = {"cpu_forward", "cpu_backward", "cpu_optimizer"}
    assert set(causes) == {"input_pipeline", "cpu_work", *phases}
    assert causes["input_pipeline"].share_pct == pytest.approx(share, abs=0.1)
    assert sum(cause.share_pct for cause in one.causes) == pytest.approx(100)
    assert one.base.steps_marked == 6
    assert (one.gpu_step_ns, one.trains) == (None, True)
    assert one.step_ns == pytest.approx(step_ns, rel=1e-3)
    assert causes["input_pipeline"].best_step_ns == pytest.approx(
        step_ns * (1 - share / 100), rel=1e-3
    )


def test_loader_bound_and_compute_bound_runs_differ(captures: dict[str, Path]) -> None:
    words = ["why", "--fail-on", "input_pipeline:10"]
    found = {name: CliRunner().invoke(app, [*words, str(file)]) for name, file in captures.items()}
    assert {name: result.exit_code for name, result in found.items()} == {"loader": 1, "compute": 0}
    loader, compute = (" ".join(found[name].output.split()) for name in ("loader", "compute"))
    assert "no GPU operations Where a step goes" in loader
    assert "input pipeline the thread of the steps is in a data range" in loader
    assert "Try first load batches sooner: more loader workers" in loader
    assert re.search(r"Expect [\d.]+ ms, ×1\.\d+ \(.* in 8 of 10 cases\)", loader)
    assert "Try first" not in compute


def test_steps_without_phases_are_work_on_the_cpu(tmp_path: Path) -> None:
    events = [
        {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{number}", "pid": 1,
         "tid": 1, "ts": 100.0 * number, "dur": 90.0}
        for number in range(5)
    ]  # fmt: skip
    operators = [
        {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1,
         "ts": 100.0 * number + 10, "dur": 50.0}
        for number in range(5)
    ]  # fmt: skip
    file = tmp_path / "plain.json"
    file.write_text(
        json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": events + operators})
    )
    shown = " ".join(CliRunner().invoke(app, ["why", str(file)]).output.split())
    assert "100.0 % work on the CPU aten::add" in shown
    assert "Try first" not in shown
