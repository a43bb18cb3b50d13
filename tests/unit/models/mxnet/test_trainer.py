"""The models in MXNet: size, work, that they learn, and that marks are complete and change nothing.

MXNet runs in an interpreter of its own, which ``TBD_TRACE_MXNET_PYTHON`` names.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import tbd_models
from corpus import ROOT
from fast import nightly
from tbd_models.definition import OUT_OF_MEMORY, UNSUPPORTED, UnsupportedError
from tbd_models.mxnet import execution
from tbd_models.registry import find
from tbd_models.settings import Settings

PYTHON = os.environ.get("TBD_TRACE_MXNET_PYTHON")
CELLS = ("transformer", "resnet50", "inception3", "seq2seq", "deepspeech2")
EVERY_CELL = [CELLS[0], *(pytest.param(name, marks=nightly) for name in CELLS[1:])]
# Layers whose inputs need no gradient and that have no parameters of their own.
WITHOUT_BACKWARD = {
    "inception3": {"InceptionV3"},
    "seq2seq": {"encoder"},
    "transformer": {"embedding"},
    "deepspeech2": {"DeepSpeech2"},
}


@pytest.fixture(scope="module", params=EVERY_CELL)
def name(request: pytest.FixtureRequest) -> str:
    """Return a model; all tests of one come together, and its programs run once."""
    return str(request.param)


def python(*words: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run MXNet's interpreter on one core: tests share the machine."""
    assert PYTHON is not None
    models = Path(tbd_models.__file__).parents[1]
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [PYTHON, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=300,
        env=inherited
        | {"PYTHONPATH": str(models), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
        | variables,
        check=False,
    )


@cache
def seen(name: str, kind: str) -> dict[str, Any]:
    """Return what ``mxnet_cell.py`` saw of a model."""
    # oneDNN takes other algorithms for some arrays that marks have passed on, and rounds otherwise;
    # losses of these networks drift apart by that in a few steps.
    drifts = name in ("resnet50", "inception3")
    variables = {"MXNET_MKLDNN_ENABLED": "0"} if drifts else {}
    cell = ROOT / "tests" / "interpreters" / "mxnet_cell.py"
    done = python(cell, name, kind, **variables)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def ranges(events: list[str | None]) -> Iterator[tuple[str, list[str]]]:
    """Yield every range and those around it, outermost first; all ranges must end."""
    around: list[str] = []
    for event in events:
        if event is None:
            around.pop()
        else:
            yield event, list(around)
            around.append(event)
    assert not around


def is_inside(name: str, other: str, model: str) -> bool:
    return other == model or name.startswith(f"{other}.")


@pytest.mark.slow
@pytest.mark.needs("mxnet")
def test_full_size_has_the_declared_parameters_and_operations(name: str) -> None:
    for precision in ("full", "mixed"):
        found = seen(name, "marked")[precision]
        for variant in find(name).variants_in("mxnet"):
            assert found[variant.name] == {
                "parameters": variant.parameters_in("mxnet"),
                "forward_flop": variant.forward_flop,
                "training_flop": variant.training_flop,
            }


@pytest.mark.slow
@pytest.mark.needs("mxnet")
def test_loss_falls_in_20_steps(name: str) -> None:
    for losses in seen(name, "plain")["losses"].values():
        assert len(losses) == 20
        assert sum(losses[-4:]) < 0.9 * sum(losses[:4])


@pytest.mark.needs("mxnet")
def test_layers_have_their_sizes(name: str) -> None:
    found = seen(name, "marked")
    layers = found["layers"]
    assert sum(layer["parameters"] for layer in layers) == found["describe"]["parameters"]
    for layer in layers:
        assert layer["weight_bytes"] == layer["gradient_bytes"] == 4 * layer["parameters"]
        assert layer["feature_map_bytes"] >= 0
        assert ("precision" in layer) == (layer["forward_flop"] > 0)
    assert len({layer["name"] for layer in layers}) == len(layers)


@pytest.mark.needs("mxnet")
def test_one_type_of_the_published_dominant_kind_is_there(name: str) -> None:
    types = {layer["type"] for layer in seen(name, "marked")["layers"]}
    assert types & set(find(name).dominant_types)


@pytest.mark.needs("mxnet")
def test_marks_change_neither_losses_nor_gradients(name: str) -> None:
    marked, plain = seen(name, "marked"), seen(name, "plain")
    assert marked["describe"]["execution"] == "naive engine"
    assert plain["describe"]["execution"] == "hybridised"
    assert marked["start"] == pytest.approx(plain["start"], rel=1e-6)
    # Gradients of branches are added in another order.
    assert marked["difference"] < 1e-6


@pytest.mark.needs("mxnet")
def test_phases_are_marked_in_order(name: str) -> None:
    outermost = [text for text, around in ranges(seen(name, "marked")["events"]) if not around]
    assert outermost == [
        f"phase:{phase}" for phase in ("data", "forward", "loss", "backward", "optimizer")
    ]


@pytest.mark.needs("mxnet")
def test_every_call_of_a_layer_is_marked_forward_and_backward(name: str) -> None:
    found = seen(name, "marked")
    calls: dict[str, Counter[str]] = {"layer": Counter(), "layer_backward": Counter()}
    for text, around in ranges(found["events"]):
        kind, _, layer = text.partition(":")
        if kind in calls:
            calls[kind][layer] += 1
            assert around[0] == ("phase:forward" if kind == "layer" else "phase:backward")
    layers = {layer["name"] for layer in found["layers"]}
    assert layers <= set(calls["layer"])
    for layer in layers - WITHOUT_BACKWARD.get(name, set()):
        assert calls["layer"][layer] == calls["layer_backward"][layer]
    for layer in WITHOUT_BACKWARD.get(name, set()):
        assert calls["layer_backward"][layer] == 0


@pytest.mark.needs("mxnet")
def test_a_layer_lies_in_what_calls_it_and_in_nothing_else(name: str) -> None:
    """Of branches too: no layer's backward pass takes in a piece of another branch's."""
    events = seen(name, "marked")["events"]
    model = next(text for text, _ in ranges(events) if text.startswith("layer:"))
    for text, around in ranges(events):
        kind, _, layer = text.partition(":")
        others = [other.partition(":") for other in around[1:]]
        if kind.startswith("layer"):
            assert {other[0] for other in others} <= {kind}
            assert all(is_inside(layer, other[2], model.partition(":")[2]) for other in others)


@pytest.mark.needs("mxnet")
def test_a_narrow_layer_counts_by_hand() -> None:
    layers = {layer["name"]: layer for layer in seen("resnet50", "marked")["layers"]}
    # 7x7 convolution of 3 into 8 channels of 32x32; the normalization before it needs a gradient.
    first = layers["features.1"]
    assert first["parameters"] == 8 * 3 * 49
    assert first["forward_flop"] == 2 * 8 * 32 * 32 * 3 * 49
    assert first["backward_flop"] == 2 * first["forward_flop"]
    assert first["feature_map_bytes"] == 4 * 8 * 32 * 32
    last = layers["output"]
    assert (last["parameters"], last["forward_flop"]) == (256 * 10 + 10, 2 * 256 * 10)
    assert last["backward_flop"] == 2 * last["forward_flop"]


def program(*words: str) -> subprocess.CompletedProcess[str]:
    small = ("--scale", "small", "--iterations", "1", "--warmup", "0", "--batch-size", "1")
    return python("-m", "tbd_models", "run", "seq2seq", "--framework", "mxnet", *small, *words)


@pytest.mark.slow
@pytest.mark.needs("mxnet")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--device", "cuda"), "MXNet sees no GPU here; use --device cpu"),
        (("--device", "cpu", "--precision", "mixed"), "use --precision fp32 on a CPU"),
        (("--device", "cpu", "--precision", "tf32"), "use --precision fp32 or mixed"),
        (("--device", "cpu", "--execution", "xla"), "use --execution auto"),
    ],
)
def test_what_cannot_be_is_refused_with_advice(words: tuple[str, ...], said: str) -> None:
    done = program(*words)
    if words == ("--device", "cuda") and done.returncode == 0:
        pytest.skip("MXNet sees a GPU here")
    assert done.returncode == UNSUPPORTED
    assert said in done.stderr


@pytest.mark.slow
@pytest.mark.needs("mxnet")
def test_data_of_ones_own_is_read(tmp_path: Path) -> None:
    import numpy as np

    for field in ("source", "target", "label"):
        np.save(tmp_path / f"{field}.npy", np.ones((3, 5), np.int64))
    report = tmp_path / "report.json"
    done = program("--device", "cpu", "--data", str(tmp_path), "--report", str(report))
    assert done.returncode == 0, done.stderr
    assert json.loads(report.read_text())["losses"]
    (tmp_path / "label.npy").unlink()
    done = program("--device", "cpu", "--data", str(tmp_path))
    assert done.returncode == UNSUPPORTED
    assert "label.npy is missing" in done.stderr


@pytest.mark.slow
@pytest.mark.needs("mxnet")
def test_a_model_too_large_for_memory_says_so() -> None:
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30)); "
        "sys.argv = ['tbd_models', 'run', 'seq2seq', '--framework', 'mxnet', '--device', 'cpu', "
        "'--batch-size', '4096', '--iterations', '1', '--warmup', '0']; "
        "from tbd_models.__main__ import main; sys.exit(main())"
    )
    done = python("-c", code)
    assert done.returncode == OUT_OF_MEMORY, done.stderr
    assert "error: out of memory" in done.stderr


@pytest.mark.needs("mxnet")
def test_names_that_numpy_gave_up_are_restored() -> None:
    code = (
        "import numpy as np; [vars(np).pop(n, None) for n in ('bool', 'int', 'float', 'object')]; "
        "del np.__getattr__; "
        "from tbd_models.mxnet import prepare; from tbd_models.settings import Settings; "
        "prepare(Settings(1)); assert np.bool is bool and np.object is object"
    )
    done = python("-c", code)
    assert done.returncode == 0, done.stderr


def test_the_engine_follows_from_marks() -> None:
    assert execution(Settings(1)) == "hybridised"
    assert execution(Settings(1, execution="graph")) == "hybridised"
    assert execution(Settings(1, execution="eager")) == "naive engine"
    assert execution(Settings(1, marked=True)) == "naive engine"
    with pytest.raises(UnsupportedError, match="use --execution auto"):
        execution(Settings(1, execution="graph", marked=True))


@pytest.mark.slow
@pytest.mark.needs("mxnet")
def test_marks_in_unusual_circumstances() -> None:
    done = python(ROOT / "tests" / "interpreters" / "mxnet_marks.py")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["names"] == ["Twice", "dense"]
    # The gradient of the input is added to what was there.
    assert found["marked"] == found["plain"]
    called = ["layer:Twice", "layer:dense", None, "layer:dense", None, None]
    backward = [text and text.replace("layer:", "layer_backward:") for text in called]
    assert found["training"] == called + backward
    assert found["evaluation"] == called
    assert found["failure"].count(None) == len(found["failure"]) / 2 > 0
    assert found["removed"] == []
    assert found["attributes"]
