"""The TensorFlow cells of the suite beside their definitions and the PyTorch cells.

They run in an interpreter of their own, which ``TBD_TRACE_TENSORFLOW_PYTHON`` names.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from fast import nightly
from interpreters.run import in_tensorflow
from interpreters.tensorflow_cell import EAGER
from tbd_models.definition import OUT_OF_MEMORY
from tbd_models.registry import find

CELLS = [
    ("resnet50", None),
    ("transformer", None),
    ("inception3", None),
    ("seq2seq", None),
    ("deepspeech2", None),
    ("maskrcnn", None),
    ("efficientdet", None),
]
PHASES = ["phase:data", "phase:forward", "phase:loss", "phase:backward", "phase:optimizer"]

pytestmark = pytest.mark.needs("tensorflow")
every_cell = pytest.mark.parametrize(
    ("name", "variant"),
    [CELLS[0], *(pytest.param(*each, marks=nightly) for each in CELLS[1:])],
)


@cache
def cell(name: str, variant: str | None) -> dict[str, Any]:
    """Return what a cell does; one process per cell."""
    done = in_tensorflow("tensorflow_cell.py", name, *([variant] if variant else []))
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@every_cell
def test_size_and_work_are_those_of_the_definition(name: str, variant: str | None) -> None:
    definition = find(name).variant(variant, "tensorflow")
    full = cell(name, variant)["full"]
    assert full["parameters"] == definition.parameters_in("tensorflow")
    assert full["forward_flop"] == definition.forward_flop
    assert full["forward_flop"] + full["backward_flop"] == definition.training_flop


@every_cell
def test_no_two_weights_begin_alike(name: str, variant: str | None) -> None:
    assert cell(name, variant)["alike"] == []


@every_cell
def test_loss_falls(name: str, variant: str | None) -> None:
    losses = cell(name, variant)["losses"]
    assert fmean(losses[-4:]) < 0.97 * fmean(losses[:4])


@every_cell
def test_marks_change_nothing(name: str, variant: str | None) -> None:
    """The second loss shows that gradients are the same; the first one is that of the weights."""
    found = cell(name, variant)
    assert found["marked_losses"][:1] == pytest.approx(found["losses"][:1], rel=1e-3)
    if name in EAGER:
        reference = found["reference_losses"]
        assert found["marked_losses"] == pytest.approx(reference, rel=1e-3)
        assert found["eager_marked_losses"] == pytest.approx(reference[:1], rel=1e-3)


@every_cell
@pytest.mark.parametrize("execution", ["", "eager_"])
def test_every_layer_is_marked_inside_its_phase(
    name: str, variant: str | None, execution: str
) -> None:
    found = cell(name, variant)
    if execution and name not in EAGER:
        pytest.skip("takes long in eager execution")
    ranges = found[f"{execution}ranges"]
    assert [r[0] for r in ranges if r[-1].startswith("phase:")] == PHASES
    layers = found["small_layers"]
    forward = {r[-1] for r in ranges if r[0] == "phase:forward"}
    backward = {r[-1] for r in ranges if r[0] == "phase:backward"}
    assert forward >= {f"layer:{layer['name']}" for layer in layers}
    trained = {f"layer_backward:{layer['name']}" for layer in layers if layer["backward_flop"]}
    assert trained
    assert backward >= trained


@every_cell
def test_layers_run_on_one_thread(name: str, variant: str | None) -> None:
    assert cell(name, variant)["layer_threads"] == 1


@every_cell
def test_small_parameters_are_those_of_the_layers(name: str, variant: str | None) -> None:
    layers = cell(name, variant)["small_layers"]
    assert len({layer["name"] for layer in layers}) == len(layers)
    assert all(layer["gradient_bytes"] == 4 * layer["parameters"] for layer in layers)


def fitted(**environment: str) -> dict[str, Any]:
    """Return what ``fit`` with marks does."""
    found: dict[str, Any] = json.loads(in_tensorflow("keras_fit.py", **environment).stdout)
    return found


def test_fit_marks_iterations_and_layers() -> None:
    ranges = fitted(TF_NUM_INTEROP_THREADS="1")["ranges"]
    assert [r[-1] for r in ranges if len(r) == 1 and r[0].startswith("iteration")] == [
        f"iteration {n}" for n in range(4)
    ]
    texts = [r[-1] for r in ranges]
    for name in ("stem", "left", "right", "scores"):
        assert texts.count(f"layer:{name}") == 4
        assert texts.count(f"layer_backward:{name}") == 4
    assert not any(
        "layer" in outer and "layer" in inner for *outer, inner in ranges for outer in outer
    )


def test_several_threads_are_refused_with_what_to_do() -> None:
    assert "TF_NUM_INTEROP_THREADS=1" in fitted(TF_NUM_INTEROP_THREADS="")["error"]


def test_memory_that_ran_out_is_reported(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    done = in_tensorflow("tensorflow_out_of_memory.py", report, code=OUT_OF_MEMORY)
    said = "OOM when allocating tensor with shape[9]"
    assert json.loads(report.read_text()) == {"status": "out_of_memory", "reason": said}
    assert f"error: out of memory: {said}\n" in done.stderr
