"""What a verdict says about records that the trace lacks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from corpus import ROOT
from made_loop import programs_of
from made_trace import MadeTrace
from tbd_trace.cli.main import app
from tbd_trace.why.covers import missing_content, unfinished_run, unrecorded_graphs

TORCH_SAMPLE = ROOT / "data" / "samples" / "synthetic_mlp" / "timeline.pt.trace.json"


def replays(recorded: int, of: int) -> MadeTrace:
    """Return graph launches with a driver call inside each; the first ``recorded`` have kernels."""
    made = MadeTrace()
    for number in range(of):
        at, launch = 10_000 * number, made.next_id()
        made.add_call(at, at + 40, "cudaGraphLaunch_v10000", correlation_id=launch)
        made.add_call(at + 10, at + 30, "cuGraphLaunch", correlation_id=made.next_id())
        if number < recorded:
            made.add_kernel(at + 100, at + 900, correlation_id=launch)
    return made


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recorded", "of", "said"),
    [(2, 32, "30 of 32 graph launches"), (18, 20, "2 of 20"), (19, 20, None), (3, 3, None)],
)
def test_graph_launches_without_kernels(recorded: int, of: int, said: str | None) -> None:
    (program,) = programs_of(replays(recorded, of))
    found = unrecorded_graphs(program)
    assert [sentence.startswith(said or "") for sentence in found] == ([True] if said else [])


@pytest.mark.parametrize(
    ("note", "said"),
    [
        ("ends in the middle: 20 events read", ["the file ends in the middle: 20 events read"]),
        (
            "damaged after its events: the gzip stream ends early",
            ["the file is damaged after its events: the gzip stream ends early"],
        ),
        ("invalid JSON: 3 events dropped", ["the file has invalid JSON: 3 events dropped"]),
        ("rank 0 of 8 of a distributed job", []),
    ],
)
def test_notes_about_what_a_file_lacks(note: str, said: list[str]) -> None:
    assert missing_content([note]) == said


@pytest.mark.slow
def test_the_screen_says_that_a_file_ends_early(elsewhere: Path) -> None:
    text = TORCH_SAMPLE.read_text(encoding="utf-8")
    cut = elsewhere / "cut.pt.trace.json"
    cut.write_text(text[: 2 * len(text) // 3], encoding="utf-8")
    result = CliRunner().invoke(app, ["why", str(cut)])
    assert result.exit_code == 0, result.output
    assert "Covers      the file ends in the middle" in result.stdout
    whole = CliRunner().invoke(app, ["why", str(TORCH_SAMPLE)])
    assert "Covers" not in whole.stdout


@pytest.mark.parametrize(
    ("capture", "said"),
    [
        ({}, []),
        ({"status": "ok"}, []),
        ({"status": "failed", "reason": "a"}, ["the run ended as failed: a"]),
        ({"status": "interrupted"}, ["the run ended as interrupted: no reason given"]),
    ],
)
def test_a_run_that_did_not_end_as_it_should(capture: dict[str, str], said: list[str]) -> None:
    assert unfinished_run(capture) == said


def test_the_screen_says_how_the_run_ended(tmp_path: Path) -> None:
    document = {"status": "failed", "reason": "boom"}
    document |= {"unprofiled": {"iterations": 4, "seconds": 0.0006}, "files": [TORCH_SAMPLE.name]}
    (tmp_path / "capture.json").write_text(json.dumps(document))
    (tmp_path / TORCH_SAMPLE.name).write_bytes(TORCH_SAMPLE.read_bytes())
    done = CliRunner().invoke(app, ["why", str(tmp_path)])
    assert "Covers      the run ended as failed: boom" in done.output
    said = (
        "Profiler without it a usual step takes 0.15 ms, recorded 0.265 ms (×1.77); there the GPU"
    )
    assert said in " ".join(done.output.split())
