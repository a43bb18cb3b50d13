"""Environments for the frameworks: made whole or not at all, from wheels made here, offline."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tbd_collectors import environment_making, environments
from tbd_collectors.environment_making import EnvironmentMakingError, create
from tbd_collectors.environments import MARKER, UNFINISHED, Recipe, environment
from tbd_models.registry import FRAMEWORKS, models
from tbd_trace.cli.main import app
from tbd_trace.errors import UsageError
from tbd_trace.machine import inspection
from terminal import ENTRY_POINT

CURRENT = f"{sys.version_info.major}.{sys.version_info.minor}"
RECIPE = replace(environments.recipes()["pytorch"], pythons=(CURRENT,), cpu_mib=1)


def wheel(directory: Path, name: str, version: str, source: str = "") -> None:
    """Write a wheel with one package that has one line."""
    stem = f"{name.replace('-', '_')}-{version}"
    files = {
        f"{name}/__init__.py": source or f"__version__ = {version!r}",
        f"{stem}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{stem}.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = [f"{path},sha256={_digest(text)},{len(text)}" for path, text in files.items()]
    files[f"{stem}.dist-info/RECORD"] = "\n".join([*record, f"{stem}.dist-info/RECORD,,"]) + "\n"
    with zipfile.ZipFile(directory / f"{stem}-py3-none-any.whl", "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory of wheels, of all that the recipe names, which is all that pip sees."""
    directory = tmp_path / "wheels"
    directory.mkdir()
    for pin in RECIPE.cpu:
        wheel(directory, *pin.split("=="))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(directory))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_COMPILE", "1")
    return directory


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return where the environment of PyTorch will be; the recipe fits this Python."""
    monkeypatch.setenv(environments.HOME_VARIABLE, str(tmp_path / "envs"))
    monkeypatch.setattr(environment_making, "recipes", lambda: {"pytorch": RECIPE})
    return tmp_path / "envs" / "pytorch"


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a virtual environment with nothing but this interpreter's pip."""
    import pip

    directory = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", directory], check=True)
    (packages,) = directory.glob("lib/python*/site-packages")
    shutil.copytree(Path(pip.__file__).parent, packages / "pip")
    return directory


@pytest.fixture
def quick(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copy a virtual environment rather than making one, which takes seconds."""
    copy = "import shutil, sys; shutil.copytree(*sys.argv[1:], symlinks=True, dirs_exist_ok=True)"
    monkeypatch.setattr(environment_making, "_venv", lambda python: [python, "-c", copy, str(bare)])


@pytest.fixture
def made(place: Path, wheels: Path, quick: None, bare: Path) -> Path:
    """Return an environment that is there; only the first one is made, the others are copies."""
    first = bare.with_name("made")
    if not first.exists():
        make()
        shutil.copytree(place, first, symlinks=True)
    else:
        shutil.copytree(first, place, symlinks=True)
    return place


def make(*, force: bool = False, say: Callable[[str], None] = print) -> environment_making.Made:
    return create("pytorch", "cpu", force=force, say=say, on_line=lambda _line: None)


def failed(code: int, *words: str) -> str:
    result = CliRunner().invoke(app, ["env", *words])
    assert result.exit_code == code, result.output
    assert result.stderr.count("error: ") == 1
    return result.stderr


def listed() -> dict[str, dict[str, str | None]]:
    result = CliRunner().invoke(app, ["env", "list", "--format", "json"])
    assert result.exit_code == 0, result.output
    return {row["framework"]: row for row in json.loads(result.stdout)}


# recipes


def test_the_recipes_hold_what_the_workloads_need() -> None:
    assert set(environments.recipes()) == set(FRAMEWORKS) == set(inspection.FRAMEWORKS)
    for name, recipe in environments.recipes().items():
        assert set(recipe.tested) <= set(recipe.pythons)
        assert recipe.cpu_mib > 0
        for pins in (recipe.cpu, recipe.cuda):
            assert all(pin.count("==") == 1 for pin in pins)
            named = {pin.split("==")[0].split("[")[0] for pin in pins}
            assert named & set(inspection.FRAMEWORKS[name])
            assert f"nvtx=={inspection.NVTX_VERSION}" in pins
            needed = {"numpy", *(p for model in models() for p in model.packages.get(name, ()))}
            assert needed <= named


# making


@pytest.mark.slow
def test_an_environment_is_made_and_used(
    place: Path, wheels: Path, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = wheels.parent / "elsewhere"
    (elsewhere / "nvtx").mkdir(parents=True)
    (elsewhere / "nvtx" / "__init__.py").write_text("raise RuntimeError('not this one')")
    monkeypatch.setenv("PYTHONPATH", str(elsewhere))  # of no concern to the environment
    said: list[str] = []
    made = make(say=said.append)
    monkeypatch.delenv("PYTHONPATH")
    assert made.is_new
    assert made.environment == environment("pytorch")
    assert [text.split()[0] for text in said[-3:]] == ["making", "installing", "importing"]
    assert RECIPE.note in said
    versions = inspection.interpreter(str(place / "bin" / "python"))
    assert [f"{name}=={versions[name]}" for name in ("torch", "nvtx")] == [
        RECIPE.cpu[0],
        RECIPE.cpu[-1],
    ]
    assert environments.interpreter("pytorch") == str(place / "bin" / "python")
    marker = json.loads((place / MARKER).read_text())
    assert (marker["framework"], marker["device"]) == ("pytorch", "cpu")
    assert marker["pins"] == list(RECIPE.cpu)
    assert marker["python"].startswith(CURRENT)
    row = listed()["pytorch"]
    assert row["status"] == "ok"
    assert (row["packages"] or "").startswith("torch 2.13.0, transformers ")
    assert listed()["mxnet"] == dict.fromkeys(row) | {"framework": "mxnet", "status": "not made"}


@pytest.mark.slow
def test_what_is_there_is_left_alone(place: Path, wheels: Path, made: Path) -> None:
    before = (place / MARKER).stat().st_mtime_ns
    shutil.rmtree(wheels)  # nothing is installed again
    result = CliRunner().invoke(app, ["env", "create", "pytorch", "--gpu"])
    assert result.exit_code == 0, result.output
    assert "exists for cpu; use --force to replace it" in result.stderr
    assert str(place / "bin" / "python") in result.stdout
    assert (place / MARKER).stat().st_mtime_ns == before


@pytest.mark.slow
def test_what_was_cut_off_is_made_anew(place: Path, wheels: Path, quick: None) -> None:
    (place / "lib").mkdir(parents=True)
    (place / UNFINISHED).write_text('{"framework": "py')
    (place / "lib" / "left over").touch()
    assert environments.usual_interpreter("pytorch") == sys.executable
    assert listed()["pytorch"]["status"] == "half-made"
    assert make().is_new
    assert environment("pytorch").status == "ok"
    assert not (place / "lib" / "left over").exists()
    assert not (place / UNFINISHED).exists()


@pytest.mark.slow
def test_an_environment_whose_python_is_gone_is_made_anew(place: Path, made: Path) -> None:
    for python in place.glob("bin/python*"):
        python.unlink()
    assert listed()["pytorch"]["status"] == "broken"
    assert environments.usual_interpreter("pytorch") == sys.executable
    assert make().is_new
    assert listed()["pytorch"]["status"] == "ok"


@pytest.mark.slow
def test_what_env_did_not_make_is_not_touched(place: Path, wheels: Path, quick: None) -> None:
    place.mkdir(parents=True)
    (place / "setup.py").touch()  # a checkout of PyTorch, for one
    for words in (("create", "pytorch", "--cpu"), ("create", "pytorch", "--force")):
        assert "was not made by tbd-trace env, so it is left alone" in failed(2, *words)
    assert "left alone" in failed(2, "remove", "pytorch")
    assert [path.name for path in place.iterdir()] == ["setup.py"]


# failing


@pytest.mark.slow
def test_a_wheel_that_is_missing(place: Path, wheels: Path, quick: None) -> None:
    next(wheels.glob("nvtx-*")).unlink()
    said = failed(1, "create", "pytorch", "--cpu")
    assert f"pip finds no nvtx==0.2.11 for {sys.executable}, nor any other version of it" in said
    assert "tested: Python 3.11" in said
    assert not place.exists()


@pytest.mark.slow
def test_a_framework_that_cannot_be_imported(place: Path, wheels: Path, quick: None) -> None:
    wheel(wheels, *RECIPE.cpu[0].split("=="), source="import no_such_library")
    with pytest.raises(EnvironmentMakingError, match=r"installed but cannot be imported: .*No mod"):
        make()
    assert not place.exists()


@pytest.mark.slow
def test_what_is_made_anew_and_fails_leaves_the_old_one(place: Path, made: Path) -> None:
    before = (place / MARKER).read_bytes()

    def say(text: str) -> None:
        if text.startswith("installing"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make(force=True, say=say)
    assert (place / MARKER).read_bytes() == before
    assert environments.interpreter("pytorch") == str(place / "bin" / "python")
    assert make(force=True).is_new
    assert sorted(path.name for path in place.parent.iterdir()) == [".pytorch.lock", "pytorch"]


@pytest.mark.slow
def test_ctrl_c_leaves_nothing(place: Path, wheels: Path) -> None:
    """The real thing: a process of its own, with a virtual environment as Python makes it."""
    if CURRENT not in environments.recipes()["pytorch"].pythons:
        pytest.skip(f"PyTorch is not tested on Python {CURRENT}")
    wheel(wheels, *RECIPE.cpu[0].split("=="), source="import time; time.sleep(600)")
    command = [*ENTRY_POINT, "env", "create", "pytorch", "--cpu"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        while not (line := process.stderr.readline()).startswith("pytorch: importing"):
            assert line, "it ended before"
        assert environment("pytorch").status == "half-made"
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 128 + 2
    assert not place.exists()
    assert listed()["pytorch"]["status"] == "not made"


@pytest.mark.parametrize(
    ("said", "reported"),
    [
        ("ERROR: Could not install packages: [Errno 28] No space left on device", "no space is"),
        (
            "WARNING: Retrying (Retry(total=0)): NewConnectionError('[Errno 101]')\n"
            "ERROR: No matching distribution found for torch==2.13.0",
            "cannot reach the package index",
        ),
        ("ensurepip is not available.", "apt-get install python3-venv"),
        ("something else", "was not made: something else"),
    ],
)
def test_what_failed_is_said_in_a_users_words(
    place: Path, monkeypatch: pytest.MonkeyPatch, said: str, reported: str
) -> None:
    script = f"print({said!r}); raise SystemExit(1)"
    monkeypatch.setattr(environment_making, "_venv", lambda python: [python, "-c", script])
    assert reported in failed(1, "create", "pytorch", "--cpu")
    assert not place.exists()


def test_too_little_room_is_reported_before_anything_is_made(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(place.parents[1])._replace(free=2**20 - 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage)
    assert "has 0 MiB left for it, which takes about 1 MiB" in failed(
        1, "create", "pytorch", "--cpu"
    )
    assert not place.exists()


def test_two_at_a_time(place: Path) -> None:
    said: list[str] = []

    def say(text: str) -> None:
        said.append(failed(2, "create", "pytorch", "--cpu"))
        raise OSError(text)

    with pytest.raises(OSError, match=r"making|wheel"):
        make(say=say)
    assert "is being made by another process" in said[0]


# which Python


@pytest.fixture
def other_python(tmp_path: Path) -> Path:
    """Return an interpreter that says that it is Python 2.7."""
    path = tmp_path / "bin" / "python2.7"
    path.parent.mkdir()
    path.write_text("""#!/bin/sh\necho '{"python": "2.7.18"}'\n""")
    path.chmod(0o755)
    return path


def test_a_python_without_wheels_is_refused_before_pip_starts(
    place: Path, other_python: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = failed(2, "create", "pytorch", "--cpu", "--python", str(other_python))
    assert f"has wheels only for Python {CURRENT}, and {other_python} is 2.7" in said
    fits_2_7 = {"pytorch": replace(RECIPE, pythons=("2.6", "2.8"))}
    monkeypatch.setattr(environment_making, "recipes", lambda: fits_2_7)
    said = failed(2, "create", "pytorch", "--cpu")
    assert f"only for Python 2.6, 2.8, and {sys.executable} is {CURRENT}; install one" in said
    assert not place.exists()


def test_a_python_with_wheels_is_looked_for(
    place: Path, other_python: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe: Recipe = replace(RECIPE, pythons=("2.7",))
    monkeypatch.setattr(environment_making, "recipes", lambda: {"pytorch": recipe})
    monkeypatch.setenv("PATH", str(other_python.parent), prepend=os.pathsep)
    script = "import sys; sys.exit(sys.argv[-2])"
    monkeypatch.setattr(
        environment_making, "_venv", lambda python: [sys.executable, "-c", script, python]
    )
    assert f"was not made: {other_python}" in failed(1, "create", "pytorch", "--cpu")


# removing, and what is not there


@pytest.mark.slow
def test_removing(place: Path, made: Path) -> None:
    assert CliRunner().invoke(app, ["env", "remove", "all"]).exit_code == 0
    assert not place.exists()
    assert "there is no environment of pytorch" in failed(2, "remove", "pytorch")


def test_frameworks_by_name() -> None:
    assert environments.frameworks(["all"]) == list(FRAMEWORKS)
    assert environments.frameworks(["mxnet", "mxnet"]) == ["mxnet"]
    with pytest.raises(UsageError, match="choose from pytorch, tensorflow, mxnet, all"):
        environments.frameworks(["caffe"])
    with pytest.raises(UsageError, match="CNTK is retired"):
        environments.frameworks(["CNTK"])


@pytest.mark.slow
def test_creation_elsewhere_prints_how_to_use_the_environment(place: Path, made: Path) -> None:
    there = place.parents[1] / "there"
    there.mkdir()
    place.rename(there / "pytorch")
    result = CliRunner().invoke(app, ["env", "create", "pytorch", "--cpu", "--into", str(there)])
    assert result.exit_code == 0, result.output
    assert f"export {environments.HOME_VARIABLE}={there}" in result.stderr
    assert environment("pytorch").status == "not made"
    assert environment("pytorch", there).status == "ok"


@pytest.fixture
def without_mxnet() -> None:
    if inspection.framework_version("mxnet", inspection.interpreter()) is not None:
        pytest.skip("MXNet is installed")


def test_a_framework_that_no_interpreter_has(place: Path, without_mxnet: None) -> None:
    with pytest.raises(UsageError, match="`tbd-trace env create mxnet` makes an environment"):
        environments.interpreter("mxnet")


@pytest.mark.slow
def test_the_environment_is_what_collect_uses(place: Path, made: Path) -> None:
    words = ["collect", "bert", "--device", "cpu", "--scale", "small", "--dry-run"]
    place.rename(place.with_name("away"))
    before = CliRunner().invoke(app, words).stdout
    assert f"{sys.executable} -m tbd_models" in before
    place.with_name("away").rename(place)
    python = str(place / "bin" / "python")
    assert CliRunner().invoke(app, words).stdout == before.replace(sys.executable, python)
    named = CliRunner().invoke(app, [*words, "--python", sys.executable]).stdout
    assert named == before
    found = json.loads(CliRunner().invoke(app, ["doctor", "--format", "json"]).stdout)
    (row,) = [row for row in found if row["check"] == "pytorch"]
    assert row["status"] == "ok"
    assert row["found"].endswith(f"nvtx 0.2.11 ({python})")
