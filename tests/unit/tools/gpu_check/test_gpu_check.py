"""Tests of the GPU check: steps, time limits, continuation, comparison and the kit."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

from collector_stand_ins import programs
from corpus import ROOT
from gpu_check import kit
from gpu_check.__main__ import main
from gpu_check.answers import Answers, fact
from gpu_check.machine import Machine, environment, set_up
from gpu_check.runner import Check
from gpu_check.step import GPU, NCU, NSYS, Expectation, Step, at_least, equal, inside, near
from gpu_check.steps import STEPS
from gpu_check.table import FAILED, IMPOSSIBLE, OPEN, PASSED
from tbd_trace.query.catalogue import Catalogue

_TOOLS = ROOT / "tools"


def _check(directory: Path, *, seconds: float = 60, device: str = "cpu", **more: Any) -> Check:
    machine = Machine(Path(sys.executable), device, **{"nsys": (), **more})
    return Check(machine, directory, environment(directory), time.monotonic() + seconds)


def _step(name: str, script: str = "true", *expectations: Expectation, **more: Any) -> Step:
    options = {"needs": (), "limit_s": 30, **more}
    return Step(name, commands=(f"/bin/sh -c '{script}'",), expectations=expectations, **options)


def _rows(directory: Path) -> list[dict[str, str]]:
    with (directory / "verdicts.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_expected_and_measured_are_compared(tmp_path: Path) -> None:
    size, true = fact("f.json", "size"), fact("f.json", "true")
    expectations = (
        at_least("enough", size, 97, needs_gpu=False),
        at_least("too few", size, 98, needs_gpu=False),
        near("near", size, true, 3, needs_gpu=False),
        near("far", size, true, 2.9, needs_gpu=False),
        equal("equal", size, 97, needs_gpu=False),
        Expectation("inside", lambda _: (97, 98), size, inside("", size, true).passes, False),
        equal("lost", fact("f.json", "lost"), 1, needs_gpu=False),
        equal("needs a GPU", size, 1),
    )
    step = _step("one", 'echo "{{\\"size\\": 97, \\"true\\": 100}}" > f.json', *expectations)
    verdicts = {verdict.what: verdict for verdict in _check(tmp_path).run([step])}
    assert {name: verdict.verdict for name, verdict in verdicts.items()} == {
        "enough": PASSED,
        "too few": FAILED,
        "near (±3 %)": PASSED,
        "far (±2.9 %)": FAILED,
        "equal": PASSED,
        "inside": PASSED,
        "lost": FAILED,
    }
    assert verdicts["lost"].measured == "not measured: f.json has no lost"
    assert verdicts["far (±2.9 %)"].expected == "100"
    text = (tmp_path / "verdicts.md").read_text(encoding="utf-8")
    assert text.startswith("4 pass, 3 FAIL, 0 not possible, 0 not run\n")
    assert "| one | too few | at least 98 | 97 | FAIL |  |" in text


def test_a_failed_step_leaves_the_others(tmp_path: Path) -> None:
    steps = [
        _step("broken", "echo no such thing; exit 3"),
        _step("slow", "sleep 20", limit_s=0.25),
        _step("good", "true", equal("it", lambda _: 1, 1, needs_gpu=False)),
    ]
    _check(tmp_path).run(steps)
    broken, slow, good = _rows(tmp_path)
    assert broken["verdict"] == FAILED
    assert "exit code 3: no such thing" in broken["measured"]
    assert slow["verdict"] == FAILED
    assert "stopped after" in slow["measured"]
    assert good["verdict"] == PASSED


def test_missing_programs_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    steps = [_step(name, needs=(name,)) for name in (GPU, NSYS, NCU)]
    verdicts = _check(tmp_path).run(steps)
    assert [verdict.verdict for verdict in verdicts] == [IMPOSSIBLE] * 3
    assert [verdict.expected.split(";")[0] for verdict in verdicts] == ["a GPU", "nsys", "ncu"]


def test_forbidden_counters_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs(tmp_path, monkeypatch, ncu="==ERROR== ERR_NVGPUCTRPERM - no permission")
    step = next(step for step in STEPS if step.name == "ncu")
    check = _check(tmp_path / "check", device="cpu")
    (verdict,) = check.run([step])
    assert verdict.verdict == IMPOSSIBLE
    assert verdict.remark == "the driver denies this user access to counters"


def test_old_driver_is_reported(tmp_path: Path) -> None:
    words = "RuntimeError: The NVIDIA driver on your system is too old"
    (verdict,) = _check(tmp_path).run([_step("one", f"echo {words}; exit 1")])
    assert (verdict.verdict, verdict.remark) == (IMPOSSIBLE, "the driver is too old")


def test_time_limit_in_the_middle(tmp_path: Path) -> None:
    steps = [_step("first", "echo run >> ../../first"), _step("second", "sleep 20"), _step("third")]
    verdicts = _check(tmp_path, seconds=2).run(steps)
    assert [verdict.verdict for verdict in verdicts] == [OPEN, OPEN]
    assert [verdict.step for verdict in verdicts] == ["second", "third"]
    assert _rows(tmp_path)[0]["measured"] == "no time left"
    steps[1] = _step("second")
    assert _check(tmp_path).run(steps) == []  # no expectations: nothing to report
    assert (tmp_path / "first").read_text(encoding="utf-8") == "run\n"


_KILLED = """
import sys, time
from pathlib import Path
sys.path[:0] = [{tools!r}, {here!r}]
from test_gpu_check import _check, _step
steps = [_step("first", "echo run >> ../../first"), _step("second", "echo $$ > pid; sleep 300")]
_check(Path({directory!r})).run(steps)
"""


@pytest.mark.slow
def test_continues_after_a_kill(tmp_path: Path) -> None:
    here = str(Path(__file__).parent)
    code = _KILLED.format(tools=str(_TOOLS), here=here, directory=str(tmp_path))
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    running = subprocess.Popen([sys.executable, "-c", code], env=environ)
    pid_file = tmp_path / "steps" / "second" / "pid"
    deadline = time.monotonic() + 60
    while not (pid_file.is_file() and pid_file.read_text(encoding="utf-8").strip()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    running.kill()
    running.wait()
    orphan = int(pid_file.read_text(encoding="utf-8"))
    assert Path(f"/proc/{orphan}").exists()
    again = [_step("first", "echo run >> ../../first"), _step("second", "echo done > it")]
    _check(tmp_path).run(again)
    assert (tmp_path / "first").read_text(encoding="utf-8") == "run\n"
    assert (tmp_path / "steps" / "second" / "it").is_file()
    _wait_for_end(orphan)


def _wait_for_end(process_id: int) -> None:
    for _ in range(100):
        try:
            os.kill(process_id, 0)
            status = Path(f"/proc/{process_id}/stat").read_text(encoding="utf-8")
        except OSError:
            return
        if status.rsplit(")", 1)[1].split()[0] == "Z":  # nobody waits for an orphan in a container
            return
        time.sleep(0.05)
    os.kill(process_id, signal.SIGKILL)
    raise AssertionError("the process of the killed check still runs")


def test_repeats_and_compares_again(tmp_path: Path) -> None:
    counted = "echo x >> ../../runs"
    _check(tmp_path).run([_step("one", counted)])
    later = _step("one", counted, equal("it", lambda _: 1, 2, needs_gpu=False))
    (verdict,) = _check(tmp_path).compare_recorded([later, _step("two")])[:1]
    assert verdict.verdict == FAILED
    assert (tmp_path / "runs").read_text(encoding="utf-8") == "x\n"
    _check(tmp_path).run([later], again=["one"])
    assert (tmp_path / "runs").read_text(encoding="utf-8") == "x\nx\n"


def _wheel(directory: Path) -> Path:
    files = {
        "gpu_kit_sample.py": "VALUE = 40\n" * 500,
        "gpu_kit_sample-1.dist-info/METADATA": (
            "Metadata-Version: 2.1\nName: gpu-kit-sample\nVersion: 1\nRequires-Dist: numpy\n"
        ),
        "gpu_kit_sample-1.dist-info/WHEEL": (
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        ),
    }
    record = "gpu_kit_sample-1.dist-info/RECORD"
    files[record] = "".join(f"{name},,\n" for name in (*files, record))
    path = directory / "gpu_kit_sample-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, content in files.items():
            wheel.writestr(name, content)
    return path


@pytest.mark.slow  # pip starts twice
def test_kit_is_installed_beside_the_packages_of_the_machine(tmp_path: Path) -> None:
    folder = tmp_path / "kit"
    folder.mkdir()
    lines = list(kit.pack_wheels([_wheel(tmp_path)], folder / kit.WHEELS))
    assert lines[0].endswith("gpu_kit_sample-1-py3-none-any.whl")
    machine = set_up(tmp_path / "check", folder, "cpu")
    code = "import gpu_kit_sample, numpy, sys; print(gpu_kit_sample.__file__, numpy.__file__)"
    argv = [machine.python, "-c", code]
    ours, theirs = subprocess.check_output(argv, text=True, cwd=tmp_path).split()
    assert ours.startswith(str(tmp_path))
    assert not theirs.startswith(str(tmp_path))
    changed = (tmp_path / "check" / "environment" / "complete").stat().st_mtime_ns
    set_up(tmp_path / "check", folder, "cpu")
    assert (tmp_path / "check" / "environment" / "complete").stat().st_mtime_ns == changed


def test_kit_without_wheels_or_damaged_is_refused(tmp_path: Path) -> None:
    with pytest.raises(kit.KitError, match="run make gpu-kit"):
        set_up(tmp_path / "check", tmp_path, "cpu")
    packed = tmp_path / kit.WHEELS
    list(kit.pack_wheels([_wheel(tmp_path)], packed))
    packed.write_bytes(packed.read_bytes()[:200])
    with pytest.raises(kit.KitError, match="damaged"):
        set_up(tmp_path / "check", tmp_path, "cpu")


def test_recorder_of_nsight_is_packed(tmp_path: Path) -> None:
    home = tmp_path / "nsight" / "target-linux-x64"
    (home / "reports").mkdir(parents=True)
    for name in ("nsys", "libcupti.so.11.8", "libcupti.so.10.0"):
        (home / name).write_text(name, encoding="utf-8")
    packed = tmp_path / kit.NSIGHT
    assert len(list(kit.pack_nsight(home.parent, packed))) == 1
    kit.unpack(packed, tmp_path / "out")
    found = {path.name for path in (tmp_path / "out" / "target-linux-x64").iterdir()}
    assert found == {"nsys", "libcupti.so.11.8"}
    assert "no nsys" in next(kit.pack_nsight(tmp_path / "none", packed))


class _AnyFact(dict[Any, Any]):
    def __missing__(self, key: Any) -> Any:
        return 1


class _Documented(Answers):
    """Answers that have the documented columns and keys, and nothing else."""

    def ask(self, *arguments: str) -> Any:
        if arguments[0] == "query":
            columns = Catalogue().get(arguments[1]).columns
            row = dict.fromkeys(columns, 1) | {"evidence": "counter"}
            sizes = [{"batch_size": size} for size in (64, 128)]
            return [row | {key: size[key] for key in size if key in columns} for size in sizes]
        return {
            "why": {"causes": [{"cause": "copies", "share_pct": 1}], "judged_step_ns": 1},
            "whatif": {"best_step_ns": 1, "worst_step_ns": 1},
            "sql": [{"n": 1}],
            "doctor": [{"check": name, "status": "ok"} for name in ("pytorch", "gpu")],
        }[arguments[0]]

    def facts(self, name: str) -> Any:
        if not name.endswith("sweep.json"):
            return _AnyFact({0: _AnyFact(file="nsys.sqlite")})
        return [_AnyFact(batch_size=size, status="ok") for size in (64, 128)]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_steps_are_well_formed(step: Step, tmp_path: Path) -> None:
    for device in ("cuda", "cpu"):
        fields = Machine(Path("python"), device, ()).fields | {"nsys": ""}
        for command in step.commands:
            words = command.format_map(fields).split()
            scripts = [word for word in words if "/programs/" in word]
            assert all(Path(script).is_file() for script in scripts)
    answers = _Documented(tmp_path, [], {})
    for expectation in step.expectations:
        true = expectation.expected
        found = expectation.measured(answers)
        expectation.passes(found, true(answers) if callable(true) else true)


def test_names_of_steps_are_unique() -> None:
    names = [step.name for step in STEPS]
    assert len(set(names)) == len(names)


def test_unknown_step_is_a_wrong_usage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["gpu_check", "ncv"])
    assert main() == 2
    assert "error: no step ncv; the steps are doctor, resnet50-fp32" in capsys.readouterr().err


@pytest.mark.slow
def test_kit_for_another_python_is_refused(tmp_path: Path) -> None:
    wheel = _wheel(tmp_path)
    other = wheel.rename(tmp_path / "gpu_kit_sample-1-cp27-cp27m-manylinux1_x86_64.whl")
    list(kit.pack_wheels([other], tmp_path / kit.WHEELS))
    with pytest.raises(kit.KitError, match="not a supported wheel"):
        set_up(tmp_path / "check", tmp_path, "cpu")
