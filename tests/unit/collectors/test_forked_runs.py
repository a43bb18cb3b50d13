"""Runs that are forks of one process: they are like runs of their own, but import nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tbd_collectors.forked_runs import forked_runs

PROGRAM = """
import json, os, sys
state = {
    "loaded": "wave" in sys.modules,
    "arguments": sys.argv,
    "name": __name__,
    "directory": os.getcwd(),
    "variable": os.environ.get("OWN"),
    "is_server": "TBD_TRACE_FORK_SERVER" in os.environ,
    "path": sys.path[0],
}
import wave
wave.seen = getattr(wave, "seen", 0) + 1
print(json.dumps(state | {"seen": wave.seen}))
if sys.argv[1] == "fail":
    sys.exit(5)
if sys.argv[1] == "wait":
    import time
    time.sleep(60)
"""


def command(tmp_path: Path, *words: str) -> list[str]:
    (tmp_path / "program.py").write_text(PROGRAM)
    return [sys.executable, str(tmp_path / "program.py"), *words]


def test_a_run_is_like_one_of_its_own_but_has_its_modules(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with forked_runs(command(tmp_path, "a", "b"), ["no_such_module", "wave"]) as argv:
        assert argv is not None
        for own in ("1", "2"):
            environment = os.environ | {"OWN": own}
            done = subprocess.run(
                argv, cwd=elsewhere, env=environment, capture_output=True, text=True, check=True
            )
            assert json.loads(done.stdout) == {
                "loaded": True,
                "arguments": [str(tmp_path / "program.py"), "a", "b"],
                "name": "__main__",
                "directory": str(elsewhere),
                "variable": own,
                "is_server": False,
                "path": str(tmp_path),
                "seen": 1,  # by each run: they share nothing that they change
            }


def test_exit_codes_are_passed_on(tmp_path: Path) -> None:
    with forked_runs(command(tmp_path, "fail"), ["wave"]) as argv:
        assert argv is not None
        assert subprocess.run(argv, capture_output=True, check=False).returncode == 5


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_signal_ends_the_run(tmp_path: Path, number: signal.Signals) -> None:
    with forked_runs(command(tmp_path, "wait"), ["wave"]) as argv:
        assert argv is not None
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as started:
            assert started.stdout is not None
            started.stdout.readline()
            started.send_signal(number)
            # The pipe ends with its last writer.
            assert started.stdout.read() == b""
        assert started.returncode == -number


def test_the_server_ends_with_the_runs(tmp_path: Path) -> None:
    before = _children()
    with forked_runs(command(tmp_path, "a"), ["wave"]) as argv:
        assert argv is not None
        assert len(_children() - before) == 1
    assert _children() == before


@pytest.mark.parametrize(
    ("program", "modules"),
    [
        (["bash", "run.sh"], ["wave"]),
        ([sys.executable, "x.py"], []),
        ([sys.executable, "x.py"], ["starts_threads"]),
    ],
)
def test_other_programs_are_not_forked(
    program: list[str], modules: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = "import threading, time\nthreading.Thread(target=time.sleep, args=(9,)).start()\n"
    (tmp_path / "starts_threads.py").write_text(threads)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    started = time.monotonic()
    with forked_runs(program, modules) as argv:
        assert argv is None
    assert time.monotonic() - started < 5


def _children() -> set[str]:
    own = Path(f"/proc/self/task/{os.getpid()}/children")
    return set(own.read_text().split())
