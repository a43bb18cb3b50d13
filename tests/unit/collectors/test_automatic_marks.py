"""Marks of training scripts that do not mention tbd-trace."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from interpreters import run as interpreters
from tbd_collectors.automatic_marks import AutomaticMarks
from tbd_collectors.collect import collect
from tbd_collectors.collection_request import Command, Profiling, Workload
from tbd_collectors.process import NothingRecordedError
from tbd_collectors.workload import importable
from tbd_models.instrument.marks import REPORT_VARIABLE
from tbd_models.instrument.trial_request import VARIABLE, TrialRequest

SCRIPTS = Path(interpreters.__file__).with_name("zero_edit")
LAST = 9  # number of the last iteration of each script
# Prints the modules that an interpreter has imported.
LOADED = "import json, sys; print(json.dumps(sorted(sys.modules)))"


@dataclass
class Ran:
    """What a script did."""

    ranges: list[tuple[str, ...]]  # of each range, the texts of the enclosing ones and its own
    iterations: list[str]
    report: dict[str, Any]  # of the automatic marks
    out: str

    def layers(self, prefix: str) -> Counter[str]:
        """Return the number of ranges of each layer."""
        texts = [text for *_, text in self.ranges]
        return Counter(t.removeprefix(prefix) for t in texts if t.startswith(prefix))


def ran(directory: Path, python: str, *words: str | Path, auto: bool = True) -> Ran:
    """Run a script with a recorder in place of nvtx."""
    paths = [str(SCRIPTS / "recorder"), os.environ.get("PYTHONPATH", "")]
    recorded, reported = directory / "ranges.json", directory / "auto.json"
    with pytest.MonkeyPatch.context() as patch, importable(auto=auto) as environment:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
        place = environment["PYTHONPATH"].split(os.pathsep)[0]
        done = subprocess.run(
            [python, *map(str, words)],
            env=os.environ
            | environment
            | {
                "PYTHONPATH": os.pathsep.join([place, os.environ["PYTHONPATH"]]),
                "RECORDED_RANGES": str(recorded),
                REPORT_VARIABLE: str(reported),
                "OMP_NUM_THREADS": "1",
                "CUDA_VISIBLE_DEVICES": "",
            },
            cwd=directory,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    events = json.loads(recorded.read_text()) if recorded.exists() else []
    report = json.loads(reported.read_text()) if reported.exists() else {}
    return Ran(*_ranges(events), report, done.stdout)


def _ranges(events: list[Any]) -> tuple[list[tuple[str, ...]], list[str]]:
    stack: list[str] = []
    ranges, names, ended = [], {}, []
    for kind, value in events:
        if kind == "push":
            stack.append(value)
            ranges.append(tuple(stack))
        elif kind == "pop":
            ended.append(stack.pop())
        elif kind == "start":
            names[value[0]] = value[1]
            ranges.append((value[1],))
        else:
            ended.append(names.pop(value))
    return ranges, [text for text in ended if text.startswith("iteration ")]


def numbered(first: int) -> list[str]:
    return [f"iteration {n}" for n in range(first, LAST + 1)]


@pytest.mark.slow
def test_a_plain_loop_of_pytorch(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    found = ran(tmp_path, sys.executable, SCRIPTS / "plain_loop.py")
    assert found.iterations == numbered(2)
    count = len(found.iterations)
    layers = ["Classifier", "features", "features.0", "features.1", "head"]
    # The evaluation after one of the steps adds a forward pass.
    assert found.layers("layer:") == dict.fromkeys(layers, count + 1)
    backward = ["features.0", "features.1", "head"]
    assert {name: found.layers("layer_backward:")[name] >= count for name in backward} == (
        dict.fromkeys(backward, True)
    )
    phases = found.layers("phase:")
    assert {phases[name] for name in ("forward", "loss", "backward", "optimizer")} == {count}
    assert (found.report["boundary"], found.report["model"]) == ("steps of SGD", "Classifier")


@pytest.mark.slow  # Lightning and PyTorch take seconds to import
def test_lightning(tmp_path: Path) -> None:
    pytest.importorskip("lightning")
    found = ran(tmp_path, sys.executable, SCRIPTS / "lightning_module.py")
    assert found.iterations == numbered(2)
    count = len(found.iterations)
    layers = ["encoder", "encoder.0", "encoder.1", "decoder", "loss"]
    assert found.layers("layer:") == dict.fromkeys(layers, count)
    assert {"encoder.0", "encoder.1", "decoder"} <= found.layers("layer_backward:").keys()
    # The closure of the step has both passes, and the optimizer follows.
    phases = found.layers("phase:")
    assert (phases["forward"], phases["backward"], phases["optimizer"]) == (2 * count, count, count)
    assert found.report["model"] == "Autoencoder"


@pytest.mark.slow  # so do Transformers
def test_the_trainer_of_hugging_face(tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    found = ran(tmp_path, sys.executable, SCRIPTS / "hf_trainer.py", tmp_path / "output")
    assert found.iterations == numbered(2)
    count = len(found.iterations)
    parts = ["query", "key", "value"]
    layers = [f"bert.encoder.layer.{n}.attention.self.{p}" for n in range(2) for p in parts]
    assert {name: found.layers("layer:")[name] for name in layers} == dict.fromkeys(layers, count)
    assert set(layers) <= found.layers("layer_backward:").keys()
    assert found.report["model"] == "BertForSequenceClassification"


@pytest.mark.slow  # so does TensorFlow
@pytest.mark.needs("tensorflow")
def test_fit_of_keras(tmp_path: Path) -> None:
    found = ran(tmp_path, str(interpreters.TENSORFLOW), SCRIPTS / "keras_fit.py")
    assert found.iterations == numbered(0)
    count = len(found.iterations)
    layers = {"hidden": count, "scores": count}
    forward = {k: v for k, v in found.layers("layer:").items() if k in layers}
    assert (forward, found.layers("layer_backward:")) == (layers, layers)
    assert found.report["boundary"] == "batches of fit"
    assert found.report["problem"] is None


@pytest.mark.slow  # so does MXNet
@pytest.mark.needs("mxnet")
def test_the_trainer_of_gluon(tmp_path: Path) -> None:
    found = ran(tmp_path, str(interpreters.MXNET), SCRIPTS / "gluon_trainer.py")
    assert found.iterations == numbered(1)
    count = len(found.iterations)
    forward = dict.fromkeys(["Sequential", "0", "0.act", "1"], count)
    assert found.layers("layer:") == forward
    assert found.layers("layer_backward:") == dict.fromkeys(["0", "0.act", "1"], count)
    phases = dict.fromkeys(["forward", "backward", "optimizer"], count)
    assert found.layers("phase:") == phases


# What must not change.


def test_a_script_that_never_trains_imports_nothing(tmp_path: Path) -> None:
    plain = set(json.loads(ran(tmp_path, sys.executable, "-c", LOADED, auto=False).out))
    marked = set(json.loads(ran(tmp_path, sys.executable, "-c", LOADED).out))
    assert marked - plain <= {"__future__", "sitecustomize", "tbd_models", "tbd_models.auto"}
    assert "tbd_models.auto" in marked


def test_the_hidden_sitecustomize_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.mine = 'ran'")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    code = "import sys, sitecustomize; print(sys.mine, sitecustomize.__file__)"
    assert ran(tmp_path, sys.executable, "-c", code).out.split() == [
        "ran",
        str(tmp_path / "sitecustomize.py"),
    ]


def test_frameworks_keep_their_loaders(tmp_path: Path) -> None:
    (tmp_path / "mxnet.py").write_text("import os; engine = os.environ.get('MXNET_ENGINE_TYPE')")
    code = "import mxnet; print(mxnet.engine, type(mxnet.__loader__).__name__, mxnet.__spec__)"
    found = ran(tmp_path, sys.executable, "-c", code)
    engine, loader, *spec = found.out.split()
    assert (engine, loader) == ("NaiveEngine", "SourceFileLoader")
    assert "SourceFileLoader" in " ".join(spec)
    # What is no MXNet cannot be marked, and runs.
    assert found.report["problem"].startswith(("ModuleNotFoundError", "ImportError"))


# What the collector says.

PYTORCH = {"framework": "pytorch", "boundary": "steps of SGD"}


def marks(directory: Path, timeline: str, report: dict[str, Any], **options: Any) -> AutomaticMarks:
    found = AutomaticMarks(Command(("t",), **options), Profiling(timeline=timeline), directory)
    if report:
        (directory / "auto.json").write_text(json.dumps(report))
    return found


@pytest.mark.parametrize(
    ("timeline", "report", "training", "words"),
    [
        ("nsys", {}, {}, "no training by PyTorch, Keras fit or gluon.Trainer was found"),
        ("torch", {"framework": "tensorflow"}, {}, "use --profiler nsys"),
        ("nsys", {"framework": "mxnet", "problem": "no nvtx"}, {}, r"\(no nvtx\)"),
        ("torch", {"framework": "pytorch"}, {}, "lower --warmup"),
        ("nsys", {"framework": "pytorch"}, {}, "pip install nvtx=="),
        ("nsys", {"framework": "pytorch", "steps": 1}, {}, "trained 1 step, and marks begin with"),
        ("torch", PYTORCH, {"steps": 2, "warmup": 5}, "trained 2 steps, .* --warmup 1$"),
        (
            *("torch", PYTORCH, {"steps": 5, "warmup": 5, "first_marked": 2}),
            "trained 5 steps, of which 5 are warm-up; --warmup 2 records 3 of them",
        ),
        (
            *("torch", PYTORCH, {"steps": 4, "warmup": 5, "first_marked": 0}),
            "trained 4 steps, of which 5 are warm-up; --warmup 1 records 3 of them",
        ),
    ],
)
def test_nothing_recorded_has_a_reason(
    timeline: str, report: dict[str, Any], training: dict[str, Any], words: str, tmp_path: Path
) -> None:
    assert re.search(words, marks(tmp_path, timeline, report).why_nothing(training))


@pytest.mark.parametrize(
    ("report", "training", "words"),
    [
        ({}, {}, "no training by PyTorch was found"),
        ({"framework": "tensorflow"}, {}, "it trains with tensorflow; `try` changes PyTorch"),
        (PYTORCH | {"problem": "no model"}, {}, r"its training is not found \(no model\)"),
        (PYTORCH, {"steps": 2, "warmup": 5}, "marks begin with the third; train longer$"),
    ],
)
def test_a_trial_names_its_own_reasons(
    report: dict[str, Any],
    training: dict[str, Any],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    request = TrialRequest(None, 0, tmp_path / "trial.json", tmp_path, is_timed=False)
    monkeypatch.setenv(VARIABLE, request.variables()[VARIABLE])
    assert re.search(words, marks(tmp_path, "torch", report).why_nothing(training))


def test_without_automatic_marks(tmp_path: Path) -> None:
    found = marks(tmp_path, "nsys", {}, auto=False)
    assert (found.are_on, found.environment()) == (False, {})
    assert "leave out --no-auto" in found.why_nothing({})
    assert not AutomaticMarks(Workload("bert"), Profiling(), tmp_path).are_on
    assert not AutomaticMarks(Command(("t",)), Profiling(memory=True), tmp_path).are_on


def test_a_command_that_does_not_train_leaves_nothing(tmp_path: Path) -> None:
    target = Command((sys.executable, "-c", "print('trained')"), device="cpu")
    with pytest.raises(NothingRecordedError, match=r"call tbd_trace.instrument\(model, "):
        collect(target, Profiling(timeline="torch", counters=False), tmp_path / "c")
    assert not list(tmp_path.iterdir())
