"""Memory of TensorFlow training steps beside sizes that are derived by hand.

TensorFlow runs in an interpreter of its own, which ``TBD_TRACE_TENSORFLOW_PYTHON`` names.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from fast import nightly
from interpreters.run import in_tensorflow, run_small
from replayed_memory import Replayed, replay

CELLS = (
    *("resnet50", "inception3", "seq2seq", "transformer", "deepspeech2"),
    *("maskrcnn", "efficientdet", "wgan", "minigo"),
)
# Gradients of embeddings have only the rows of the batch; WGAN updates its critic several times.
OTHER_GRADIENTS = ("seq2seq", "wgan")
PLAIN_SGD = ("resnet50", "inception3")  # without momentum
STEPS = {"int64": 8, "float32": 4}  # number of iterations and learning rate in the optimizer

pytestmark = pytest.mark.needs("tensorflow")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("memory")


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("suite")


@cache
def step(directory: Path, name: str, size: int) -> Replayed:
    """Return the memory of a small network's step."""
    path = directory / f"{name}-{size}.jsonl"
    in_tensorflow("tensorflow_memory.py", path, name, str(size))
    return replay(path)


@cache
def cell(name: str, directory: Path) -> tuple[Replayed, int, list[dict[str, int]]]:
    """Return memory, parameters and layers of a cell at small scale; one process per cell."""
    paths = {each: directory / f"{name}-{each}.json" for each in ("memory", "report", "layers")}
    run_small("tensorflow", name, *(w for each, p in paths.items() for w in (f"--{each}", p)))
    parameters = json.loads(paths["report"].read_text())["parameters"]
    return replay(paths["memory"]), parameters, json.loads(paths["layers"].read_text())["layers"]


@pytest.mark.parametrize("size", [4, 8])
def test_cnn_by_hand(files: Path, size: int) -> None:
    found = step(files, "cnn", size)
    classes = found.by("class")
    weights = 4 * (3 * 3 * 3 * 16 + 3 * 3 * 16 * 32 + 8192 * 10 + 10)
    assert classes["weight"] == classes["weight_gradient"] == weights == 347_880
    assert classes["optimizer_state"] == weights + sum(STEPS.values())
    first, second, scores = 4 * size * 32 * 32 * 16, 4 * size * 16 * 16 * 32, 4 * size * 10
    assert classes["feature_map"] == first + second + scores + 8  # two scalars of the loss
    assert classes["input"] == 4 * size * 32 * 32 * 3 + 4 * size
    assert classes["feature_map"] == {4: 393_384, 8: 786_760}[size]
    layers = found.layers("feature_map")
    assert layers == {"first": first, "second": second, None: scores + 8}
    assert found.layers("weight_gradient") == found.layers("weight")
    states = found.layers("optimizer_state")
    assert states.pop(None) == sum(STEPS.values())
    assert states == found.layers("weight")


@pytest.mark.parametrize("size", [4, 8])
def test_transformer_by_hand(files: Path, size: int) -> None:
    classes = step(files, "transformer", size).by("class")
    steps, width, heads = 32, 64, 4
    rows = size * steps
    values = 9 * rows * width + size * heads * steps**2 + rows * 4 * width
    values += 6 * rows + size * width + size * 10
    assert classes["feature_map"] == 4 * values + 8
    assert classes["feature_map"] == {4: 495_784, 8: 991_560}[size]
    assert classes["weight"] == classes["weight_gradient"] == 202_536


@pytest.mark.parametrize("size", [2, pytest.param(4, marks=nightly)])
def test_resnet50_has_the_known_sizes(files: Path, size: int) -> None:
    classes = step(files, "resnet50", size).by("class")
    assert classes["weight"] == classes["weight_gradient"] == 4 * 25_583_592
    assert classes["buffer"] == 4 * 53_120
    assert classes["optimizer_state"] == classes["weight"] + sum(STEPS.values())
    assert classes["feature_map"] == 83_452_752 * size + 318_728


def test_lstm_keeps_seven_values_per_unit_and_step(files: Path) -> None:
    """Four gates, the cell and its tanh, and the output; the input once for all steps."""
    found = step(files, "lstm", 3)
    steps, size, width, inputs = 7, 3, 24, 5
    floats = [e for e in found.allocations if e["class"] == "feature_map" and e["iteration"] == 0]
    inside = [e for e in floats if e["layer"] == "cells" and e["dtype"] == "float32"]
    last = 4 * size * width  # copied out of all outputs for the next layer
    kept = 4 * steps * size * (7 * width + inputs)
    assert sum(e["bytes"] for e in inside) == kept + last
    assert found.by("class")["weight"] == 4 * (4 * width * (inputs + width + 1) + 11 * 10 + 14 * 10)


def test_gradient_inside_a_loss_is_part_of_the_forward_pass(files: Path) -> None:
    found = step(files, "steep", 4)
    # tanh, the gradients before and after it, and the gradient of the input.
    assert found.by("class")["feature_map"] == 4 * 4 * (16 + 16 + 16 + 6)
    weights, gradients = found.layers("weight"), found.layers("weight_gradient")
    # The offset of the scores does not change their gradient.
    assert gradients == {"inner": weights["inner"], "scores": weights["scores"] - 4}


def test_buffers_are_freed_in_each_iteration(files: Path) -> None:
    found = step(files, "cnn", 4)
    assert found.by("class", 0) == found.by("class", 1)
    for event in found.allocations:
        assert (event["address"] in found.freed) == (event["iteration"] is not None)
    phases = [event["phase"] for event in found.allocations]
    order = ["setup", *(["other", "forward", "backward", "optimizer"] * 2)]
    assert [p for p, before in zip(phases, ["", *phases], strict=False) if p != before] == order
    classes = found.by("class")
    permanent = classes["weight"] + classes["optimizer_state"] + classes["input"]
    # The whole batch's feature maps are live when the backward pass begins.
    assert found.peak > permanent + classes["feature_map"]
    assert found.peak < sum(classes.values())


def test_header_states_assumptions(files: Path) -> None:
    header = step(files, "cnn", 8).header
    assert header["format"] == "tbd-trace memory"
    assert (header["version"], header["framework"], header["batch_size"]) == (1, "tensorflow", 8)
    assert header["estimated"] is True
    assert any("order of the graph" in text for text in header["assumptions"])
    assert any("reuses" in text for text in header["assumptions"])


@pytest.mark.parametrize(
    "name",
    # That of the test below runs in any case.
    [pytest.param(name, marks=() if name == "maskrcnn" else nightly) for name in CELLS],
)
def test_cells_have_their_weights(name: str, suite: Path) -> None:
    found, parameters, layers = cell(name, suite)
    classes = found.by("class")
    assert classes["weight"] == 4 * parameters
    if name not in OTHER_GRADIENTS:
        assert classes["weight_gradient"] == classes["weight"]
    if name in PLAIN_SGD:
        assert classes["optimizer_state"] == sum(STEPS.values())
    assert classes["feature_map"] > 0
    assert found.by("class", 1) == classes
    by_layer = found.layers("weight")
    assert {layer["name"]: layer["weight_bytes"] for layer in layers if layer["parameters"]} == {
        name: size for name, size in by_layer.items() if size
    }


def test_open_shapes_are_those_of_an_executed_step(suite: Path) -> None:
    found, _, _ = cell("maskrcnn", suite)
    assert any("executed" in text for text in found.header["assumptions"])
    assert all("None" not in event["shape"] for event in found.allocations)
