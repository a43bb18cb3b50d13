"""PyTorch under torch.profiler: a workload, a loop of one's own, and the answers of nsys."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tbd_trace
from nsys_agent import collected
from tbd_models.registry import NAMES, find, implementation, is_implemented

torch = pytest.importorskip("torch")

WARMUP, ITERATIONS = 2, 6
WORKLOAD = (
    *("resnet50", "--scale", "small", "--batch-size", "16", "--no-throughput"),
    *("--warmup", str(WARMUP), "--iterations", str(ITERATIONS)),
)
TRAINING = """
import sys, torch, tbd_trace
torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Linear(8, 64), torch.nn.ReLU(), torch.nn.LSTM(64, 16, batch_first=True)
)
optimizer = torch.optim.Adam(model.parameters())
tbd_trace.instrument(model, optimizer, batch_size=4, **eval(sys.argv[2]))
for _ in range(int(sys.argv[1])):
    output, _ = model(torch.randn(4, 3, 8))
    output.square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def run(*words: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, words)],
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        timeout=300,
        check=False,
        **options,
    )


def collect(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return run("-m", "tbd_trace", "collect", "--device", "cpu", *words)


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the capture of a workload; torch is the default on a CPU."""
    path = tmp_path_factory.mktemp("torch") / "capture"
    done = collect(*WORKLOAD, "-o", path)
    assert done.returncode == 0, done.stderr
    assert "so torch.profiler records the timeline; --profiler chooses another" in done.stderr
    return path


@pytest.fixture(scope="module")
def traces(capture: Path) -> tbd_trace.Traces:
    return tbd_trace.open(capture)


def document(capture: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((capture / "capture.json").read_text(encoding="utf-8"))
    return content


def model() -> Any:
    found = find("resnet50")
    build: Any = implementation(found, "pytorch").workload
    return build(found.variant(None, "pytorch").at("small")).model


def marked_layers(traces: tbd_trace.Traces) -> set[tuple[Any, ...]]:
    rows = traces.query("layer_time").filter(pl.col("layer").is_not_null())
    return set(rows.select("layer", "layer_type", "phase").rows())


# A workload.


@pytest.mark.slow
def test_the_capture_says_what_recorded_it(capture: Path) -> None:
    content = document(capture)
    (file,) = content["files"]
    assert file == {
        "file": "timeline.pt.trace.json.gz",
        "role": "timeline",
        "tool": "torch",
        "tool_version": torch.__version__,
    }
    assert (content["profiler"], content["device"]) == ("torch", "cpu")
    assert content["framework_version"] == torch.__version__
    assert {path.name for path in capture.iterdir()} == {
        *("capture.json", "layers.json", file["file"], "timeline.log")
    }


@pytest.mark.slow
def test_iterations_are_as_the_program_timed_them(capture: Path, traces: tbd_trace.Traces) -> None:
    timing = traces.query("iteration_timing")
    assert timing["label"].to_list() == [f"iteration {WARMUP + n}" for n in range(ITERATIONS)]
    assert timing["method"].unique().to_list() == ["torch range"]
    own = document(capture)["profiled"]["iteration_ns"][:-1]  # the last has no next start
    assert sum(timing["period_ns"][:-1]) == pytest.approx(sum(own), rel=0.05)


@pytest.mark.slow
def test_layers_are_those_of_the_model(traces: tbd_trace.Traces) -> None:
    """Neither modules nor operators appear as layers beside the marks."""
    names = {name or "ResNet" for name, _ in model().named_modules()}
    types = {name: type(module).__name__ for name, module in model().named_modules() if name}
    found = marked_layers(traces)
    assert {layer for layer, *_ in found} <= names
    forward = {layer: kind for layer, kind, phase in found if phase == "forward" and kind}
    assert forward
    assert forward == {layer: types[layer] for layer in forward}
    convolutions = {name for name, kind in types.items() if kind == "Conv2d"}
    for phase in ("forward", "backward"):
        assert convolutions <= {layer for layer, _, of in found if of == phase}


@pytest.mark.slow
def test_modules_and_operators_are_recorded_beside_the_marks(traces: tbd_trace.Traces) -> None:
    modules = traces.query("module_summary")
    called = Counter(type(module).__name__ for module in model().modules())
    del called["ModuleList"]  # it has no forward
    assert Counter(modules["class"]) == called
    calls = dict(traces.query("op_summary", by="name").select("op", "calls").iter_rows())
    assert calls["aten::conv2d"] == ITERATIONS * Counter(modules["class"])["Conv2d"]
    # Shapes of the inputs of the first convolution: a batch of images.
    shapes = traces.query("op_summary").filter(pl.col("op") == "aten::conv2d")["input_shapes"]
    assert any(text.startswith("[[16, 3, ") for text in shapes)


EVERY_TIME = ("seq2seq",)  # a recurrent model; the one above has convolutions


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        name if name in EVERY_TIME else pytest.param(name, marks=pytest.mark.nightly)
        for name in NAMES
        if is_implemented(name, "pytorch")
    ],
)
def test_every_workload_has_its_layers_forward_and_backward(name: str, tmp_path: Path) -> None:
    capture = tmp_path / "capture"
    words = ("--scale", "small", "--batch-size", "2", "--no-throughput", "--profiler", "torch")
    done = collect(name, *words, "--warmup", "1", "--iterations", "3", "-o", capture)
    assert done.returncode == 0, done.stderr
    layers = json.loads((capture / "layers.json").read_text(encoding="utf-8"))["layers"]
    found = marked_layers(tbd_trace.open(capture))
    assert {of for of, _, phase in found if phase == "forward"} >= {x["name"] for x in layers}
    trained = {layer["name"] for layer in layers if layer["backward_flop"]}
    assert trained
    assert {of for of, _, phase in found if phase == "backward"} >= trained


# A loop of one's own.


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(TRAINING, encoding="utf-8")
    return path


def labels(path: Path) -> list[str]:
    found: list[str] = tbd_trace.open(path).query("iteration_timing")["label"].to_list()
    return found


@pytest.mark.slow
def test_a_command_is_asked_to_record_itself(script: Path, tmp_path: Path) -> None:
    capture = tmp_path / "capture"
    options = ("--profiler", "torch", "--warmup", "3", "--iterations", "4", "-o", capture)
    done = collect(*options, "--", sys.executable, script, "12", "{}")
    assert done.returncode == 0, done.stderr
    content = document(capture)
    assert (content["warmup"], content["iterations"], content["batch_size"]) == (3, 4, 4)
    assert content["files"][0]["tool_version"] == content["framework_version"]
    assert labels(capture) == [f"iteration {n}" for n in range(3, 7)]
    found = marked_layers(tbd_trace.open(capture))
    for layer in (("0", "Linear"), ("1", "ReLU"), ("2", "LSTM")):
        assert {(*layer, "forward"), (*layer, "backward")} <= found
    layers = json.loads((capture / "layers.json").read_text(encoding="utf-8"))["layers"]
    assert [layer["forward_flop"] for layer in layers] == [
        3 * 2 * 8 * 64,
        0,
        3 * 2 * 4 * 16 * (64 + 16),
    ]


@pytest.mark.slow
def test_a_loop_records_itself_without_collect(script: Path, tmp_path: Path) -> None:
    window = "dict(profiler='torch', trace='mine.pt.trace.json.gz', warmup=2, iterations=3)"
    done = run(script, "9", window, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"train.py", "mine.pt.trace.json.gz"}
    assert labels(tmp_path / "mine.pt.trace.json.gz") == [f"iteration {n}" for n in (2, 3, 4)]


@pytest.mark.slow
def test_a_loop_that_ends_within_the_window_is_recorded_to_its_end(
    script: Path, tmp_path: Path
) -> None:
    done = run(script, "4", "dict(profiler='torch', warmup=2)", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert labels(tmp_path / "train.pt.trace.json.gz") == ["iteration 2", "iteration 3"]


@pytest.mark.slow
def test_a_loop_that_ends_before_the_window(script: Path, tmp_path: Path) -> None:
    done = run(script, "4", "dict(profiler='torch')", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "no train.pt.trace.json.gz was written: the loop ended before iteration 5" in done.stderr
    assert not (tmp_path / "train.pt.trace.json.gz").exists()


# Two profilers, one answer.


@pytest.fixture(scope="module")
def by_nsys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("nvtx")
    path = tmp_path_factory.mktemp("nsys") / "capture"
    done = collected(collect, *WORKLOAD, "--profiler", "nsys", "-o", path)
    assert done.returncode == 0, done.stderr
    return path


def shares(traces: tbd_trace.Traces) -> dict[tuple[str, str], float]:
    """Return the part of each layer and phase of the time of all layers, in percent.

    Of several iterations the fastest counts: other programs delay single ones.
    """
    rows = traces.sql(
        """
        WITH fastest AS (
            SELECT layer, phase, min(host_ns) AS host_ns
            FROM layer_host_time WHERE layer IS NOT NULL GROUP BY ALL
        )
        SELECT layer, phase, 100 * host_ns / sum(host_ns) OVER () FROM fastest
        """
    ).rows()
    return {(layer, phase): share for layer, phase, share in rows}


@pytest.mark.slow
@pytest.mark.needs("nsys")
def test_nsys_and_torch_give_the_same_iterations_and_layers(
    by_nsys: Path, traces: tbd_trace.Traces
) -> None:
    other = tbd_trace.open(by_nsys)
    for column in ("label", "iteration"):
        assert (
            other.query("iteration_timing")[column].to_list()
            == traces.query("iteration_timing")[column].to_list()
        )
    assert marked_layers(other) == marked_layers(traces)
    assert document(by_nsys)["profiler"] == "nsys"


@pytest.mark.slow
@pytest.mark.needs("nsys")
def test_nsys_and_torch_give_layers_similar_shares(by_nsys: Path, traces: tbd_trace.Traces) -> None:
    """Shares move by 25 % of the time at most; torch.profiler adds time to each layer."""
    one, other = shares(tbd_trace.open(by_nsys)), shares(traces)
    assert one.keys() == other.keys()
    moved = sum(abs(one[key] - other[key]) for key in one) / 2
    assert moved < 25, moved
    forward = [
        sum(share for (_, phase), share in found.items() if phase == "forward")
        for found in (one, other)
    ]
    assert forward[0] == pytest.approx(forward[1], abs=15)
    # The control: shares of the wrong layers are further apart.
    keys = sorted(one)
    wrong = dict(zip(keys, [other[key] for key in reversed(keys)], strict=True))
    assert sum(abs(one[key] - wrong[key]) for key in one) / 2 > moved


@pytest.mark.slow
@pytest.mark.needs("nsys")
def test_the_difference_names_the_profilers_alone(by_nsys: Path, capture: Path) -> None:
    done = run("-m", "tbd_trace", "diff", by_nsys, capture, "--format", "json")
    assert done.returncode == 0, done.stderr
    verdict = json.loads(done.stdout)["verdict"]
    assert (verdict["word"], verdict["sentence"]) == (
        "not comparable",
        "profiler is nsys in A, but torch in B.",
    )
