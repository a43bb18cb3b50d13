"""``python -m tbd_models`` as a collector starts it, and the models by name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tbd_collectors import workload
from tbd_collectors.collection_request import Workload
from tbd_models import __main__ as program
from tbd_models.definition import UnsupportedError
from tbd_models.registry import FRAMEWORKS, NAMES, find, implementation, is_implemented, models

SMALL = ["run", "resnet50", "--scale", "small", "--device", "cpu", "--batch-size", "2"]
SHORT = ["--iterations", "2", "--warmup", "1"]


def _main(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["tbd_models", *arguments])
    return program.main()


def _run(code: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a piece of Python; ``import tbd_models.__main__ as program`` is on its first line."""
    return subprocess.run(
        [sys.executable, "-c", f"import tbd_models.__main__ as program, sys\n{code}", *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def _torch() -> Any:
    return pytest.importorskip("torch")


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_a_run_leaves_report_and_layers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    files = ["--report", str(tmp_path / "r.json"), "--layers", str(tmp_path / "layers.json")]
    assert _main(monkeypatch, *SMALL, *SHORT, *files) == 0
    report = json.loads((tmp_path / "r.json").read_text())
    assert (report["status"], report["batch_size"], report["warmup"]) == ("ok", 2, 1)
    assert len(report["iteration_ns"]) == 2
    assert report["seconds"] == pytest.approx(sum(report["iteration_ns"]) / 1e9)
    layers = json.loads((tmp_path / "layers.json").read_text())["layers"]
    assert sum(layer["parameters"] for layer in layers) == report["parameters"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["layers.json", "r.json"]


# Everything that the analysis needs and a workload's interpreter may lack.
FOREIGN = ["tbd_trace", "tbd_collectors", "duckdb", "polars", "pyarrow", "sqlalchemy", "typer",
           "rich", "matplotlib", "transformers", "cxxfilt"]  # fmt: skip


@pytest.mark.slow
def test_a_run_needs_torch_numpy_and_nvtx_alone(tmp_path: Path) -> None:
    _torch()
    pytest.importorskip("nvtx")
    code = f"""
for name in {FOREIGN}:
    sys.modules[name] = None  # importing it raises ImportError
code = program.main()
print([name for name in {FOREIGN} if sys.modules[name] is not None])
print(sorted({{name.partition('.')[0] for name in sys.modules}} & {{'torch', 'numpy', 'nvtx'}}))
sys.exit(code)
"""
    done = _run(code, *SMALL, *SHORT, "--nvtx", "--report", str(tmp_path / "r.json"),
                OMP_NUM_THREADS="1")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["[]", "['numpy', 'nvtx', 'torch']"]
    assert json.loads((tmp_path / "r.json").read_text())["status"] == "ok"


@pytest.mark.parametrize("error", ["torch.OutOfMemoryError('CUDA out of memory')", "MemoryError()"])
def test_memory_that_runs_out_is_reported(
    error: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch = _torch()
    from tbd_models.pytorch import trainer

    def fail(*_: Any) -> None:
        raise eval(error, {"torch": torch})

    monkeypatch.setattr(trainer.PyTorchTrainer, "step", fail)
    report = tmp_path / "r.json"
    assert _main(monkeypatch, *SMALL, *SHORT, "--report", str(report)) == 12
    found = json.loads(report.read_text())
    assert found["status"] == "out_of_memory"
    assert found["reason"] in ("CUDA out of memory", "MemoryError")
    said = capsys.readouterr().err
    assert said == f"error: out of memory: {found['reason']}\n"


def test_an_unknown_model_names_the_nearest(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "r.json"
    assert _main(monkeypatch, "run", "resnet51", "--report", str(report)) == 2
    assert json.loads(report.read_text())["status"] == "unsupported"
    assert (
        capsys.readouterr().err == "error: there is no model 'resnet51'; did you mean resnet50?\n"
    )


def test_a_package_that_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _torch()
    monkeypatch.setitem(sys.modules, "nvtx", None)
    report = tmp_path / "r.json"
    assert _main(monkeypatch, *SMALL, "--nvtx", "--report", str(report)) == 2
    reason = json.loads(report.read_text())["reason"]
    assert "nvtx" in reason
    assert sys.executable in reason


@pytest.mark.slow
def test_a_crash_leaves_a_traceback(tmp_path: Path) -> None:
    _torch()
    code = """
from tbd_models.pytorch import trainer
def fail(*_): raise RuntimeError('a bug')
trainer.PyTorchTrainer.step = fail
sys.exit(program.main())
"""
    done = _run(code, *SMALL, *SHORT, "--report", str(tmp_path / "r.json"), OMP_NUM_THREADS="1")
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert done.stderr.endswith("RuntimeError: a bug\n")
    assert not (tmp_path / "r.json").exists()


@pytest.mark.parametrize(
    "arguments",
    [["--iterations", "0"], ["--warmup", "-1"], ["--batch-size", "0"], ["--max-warmup", "x"]],
)
def test_numbers_that_mean_nothing_are_refused(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        _main(monkeypatch, "run", "resnet50", *arguments)
    assert ended.value.code == 2
    assert f"argument {arguments[0]}" in capsys.readouterr().err


# The registry.


def test_every_model_is_found_by_its_name() -> None:
    assert tuple(model.name for model in models()) == NAMES
    for model in models():
        assert set(model.frameworks) <= set(FRAMEWORKS)
        assert model.variant(None) is model.variants[0]
        for framework in model.frameworks:
            assert model.variant(None, framework) is model.variants_in(framework)[0]
            assert model.variant(None, framework).name == model.defaults.get(
                framework, model.variants[0].name
            )
        assert model.variant(model.variants[-1].name) is model.variants[-1]
        with pytest.raises(UnsupportedError, match=f"{model.name} has no variant 'x'"):
            model.variant("x")
        for variant in model.variants:
            assert variant.at("full") is variant.dimensions
            assert variant.at("small") is variant.small
            assert variant.batch_size("full") == variant.default_batch_size
            assert variant.batch_size("small") == variant.small_batch_size


@pytest.mark.parametrize(
    ("name", "hint"),
    [("ResNet50", "mean resnet50"), ("bart", "mean bert"), ("qqq", "choose from resnet50, ")],
)
def test_near_names_are_suggested(name: str, hint: str) -> None:
    with pytest.raises(UnsupportedError, match=hint):
        find(name)


def test_frameworks_that_are_not_there_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="no framework 'jax'; choose from pytorch"):
        implementation(find("resnet50"), "jax")
    lacking = next(name for name in FRAMEWORKS if not is_implemented("bert", name))
    with pytest.raises(UnsupportedError, match=f"not implemented in {lacking}; choose from"):
        implementation(find("bert"), lacking)


# Where another interpreter finds it.

_PLACES = """
import importlib.util, json, os, sys
import tbd_models.registry as registry
registry.find('resnet50')
names = ['tbd_models', 'torch', 'numpy', 'duckdb', 'pytest', 'tbd_collectors']
print(json.dumps([name for name in names if importlib.util.find_spec(name)]))
"""


def test_another_interpreter_finds_the_workloads_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    with workload.importable() as environment:
        place = Path(environment["PYTHONPATH"])
        # -S leaves out what is installed beside this interpreter, as that of another would.
        done = subprocess.run(
            [sys.executable, "-S", "-c", _PLACES],
            env={"PATH": os.environ["PATH"], **environment},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == ["tbd_models"]
        source = place / "tbd_models" / "__main__.py"
        assert source.samefile(str(program.__file__))
    assert not place.exists()
    assert Path(program.__file__).is_file()


def test_without_the_packages_nothing_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload, "find_spec", lambda _: None)
    with workload.importable() as environment:
        place = environment["PYTHONPATH"].split(os.pathsep)[0]
        assert list(Path(place).iterdir()) == []


def test_a_path_of_the_users_own_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["/a", "/b"]))
    with workload.importable() as environment:
        assert environment["PYTHONPATH"].split(os.pathsep)[1:] == ["/a", "/b"]


def test_the_program_understands_its_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = Workload("bert", variant="squad", scale="small", device="cpu", batch_size=3,
                      precision="mixed", gradient_accumulation=2, activation_checkpointing=True,
                      iterations=7, warmup=2, seed=5, data=Path("/d a"),
                      lengths="/h.csv", input="decode", loader_workers=2,
                      python="/opt/python")  # fmt: skip
    argv = workload.command(wanted, report=Path("/r"), layers=Path("/l"), nvtx=True, iterations=4)
    assert argv[:3] == ["/opt/python", "-m", "tbd_models"]
    monkeypatch.setattr(sys, "argv", argv[2:])
    read = vars(program._arguments())
    assert read == {
        "model": "bert", "framework": "pytorch", "variant": "squad", "scale": "small",
        "device": "cpu", "batch_size": 3, "precision": "mixed", "iterations": 4, "warmup": 2,
        "max_warmup": 100, "max_warmup_seconds": None, "seed": 5, "data": Path("/d a"),
        "gradient_accumulation": 2, "activation_checkpointing": True,
        "execution": "auto", "nvtx": True, "report": Path("/r"), "layers": Path("/l"),
        "layer_list": None, "scheme": "ddp", "lengths": "/h.csv",
        "input": "decode", "loader_workers": 2,
            "memory": None, "estimate": False, "torch_trace": None, "torch_memory": False,
    }  # fmt: skip


def test_what_is_not_asked_for_is_not_on_the_command_line() -> None:
    argv = workload.command(Workload("resnet50"))
    for option in ("--variant", "--warmup", "--data", "--lengths", "--input",
                   "--report", "--layers", "--nvtx",
                   "--gradient-accumulation", "--activation-checkpointing"):  # fmt: skip
        assert option not in argv
    assert "--warmup" in workload.command(Workload("resnet50"), warmup=0)
