"""Helpers: other processes that call functions for this one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from processes import end_soon
from tbd_trace.runtime import worker_process
from tbd_trace.runtime.worker_process import Worker, WorkerFailed

linux = sys.platform == "linux"


@pytest.fixture
def worker() -> Iterator[Worker]:
    started = Worker()
    yield started
    started.close()


def test_another_process_calls_the_function(worker: Worker) -> None:
    assert worker.call(str.split, "a-b", "-") == ["a", "b"]
    assert worker.call(os.getpid) == worker._process.pid != os.getpid()
    assert worker.call(int, "ff", base=16) == 255


def test_what_fails_ends_it(worker: Worker) -> None:
    with pytest.raises(WorkerFailed):
        worker.call(int, "no number")
    with pytest.raises(WorkerFailed):
        worker.call(int, "1")
    assert worker._process.wait() != 0


def cannot_start(*_: object, **__: object) -> None:
    raise OSError("no more processes")


@pytest.mark.parametrize(
    ("place", "name", "value"),
    [(sys, "executable", ""), (sys, "frozen", True), (subprocess, "Popen", cannot_start)],
    ids=["embedded", "frozen", "no process"],
)
def test_it_may_not_start(
    place: Any, name: str, value: str | Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_process, "_is_single_threaded", lambda: False)
    monkeypatch.setattr(place, name, value, raising=False)
    with pytest.raises(WorkerFailed):
        Worker()


def test_it_may_not_be_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    before = open_files()
    monkeypatch.setattr(worker_process, "_is_single_threaded", lambda: True)
    monkeypatch.setattr(os, "fork", cannot_start, raising=False)
    with pytest.raises(WorkerFailed):
        Worker()
    assert open_files() == before


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir())) if linux else 0


def test_without_proc_nobody_knows_how_many_threads_there_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(worker_process, "_PROC_SELF", tmp_path)
    assert not worker_process._is_single_threaded()


def run_script(path: Path, text: str) -> subprocess.CompletedProcess[str]:
    path.write_text(text)
    return subprocess.run([sys.executable, path], capture_output=True, text=True, check=False)


# Of a second thread the process could be copied no more: a new Python, which lacks what was made.
THREADS = {
    "one thread": "",
    "two threads": "import threading\n"
    "threading.Thread(target=threading.Event().wait, daemon=True).start()\n",
}


@pytest.mark.parametrize("threads", THREADS)
def test_the_callers_script_is_not_run_again(threads: str, tmp_path: Path) -> None:
    done = run_script(
        tmp_path / "script.py",
        f"{THREADS[threads]}"
        "import os, sys\n"
        "from tbd_trace.runtime.worker_process import Worker, WorkerFailed\n"
        "print('begun', end=' ')\n"  # is still in the buffer when the process is copied
        "sys.modules['made'] = sys\n"
        "worker = Worker()\n"
        'knows = \'"made" in __import__("sys").modules\'\n'
        "print(worker.call(abs, -7), worker.call(eval, knows))\n"
        "assert worker.call(os.getpid) == worker._process.pid != os.getpid()\n"
        "assert worker.call(os.getsid, 0) == worker._process.pid\n"
        "try:\n"
        "    worker.call(int, 'no number')\n"
        "except WorkerFailed:\n"
        "    print('failed', worker._process.wait() != 0)\n"
        "worker.close()\n",
    )
    copied = linux and threads == "one thread"
    assert done.stdout.split() == ["begun", "7", str(copied), "failed", "True"]
    assert not done.stderr


@pytest.mark.skipif(not linux, reason="processes are copied on Linux only")
def test_a_copy_says_nothing_and_holds_no_file_of_the_callers(tmp_path: Path) -> None:
    done = run_script(
        tmp_path / "script.py",
        "import atexit, os\n"
        "from tbd_trace.runtime.worker_process import Worker\n"
        "atexit.register(print, 'ended')\n"
        "script = open(__file__)\n"
        "workers = Worker(), Worker()\n"
        "for worker in workers:\n"
        "    worker.call(print, 'said', flush=True)\n"
        "    worker.call(os.write, 1, b'said')\n"
        "    worker.call(os.write, 2, b'said')\n"
        "    fds = [f'/proc/{worker._process.pid}/fd/{fd}' for fd in range(20)]\n"
        "    print(sorted(os.readlink(fd).split(':')[0] for fd in fds if os.path.islink(fd)))\n"
        "    worker.close()\n",
    )
    opened = "['/dev/null', '/dev/null', '/dev/null', 'pipe', 'pipe']"
    assert done.stdout.splitlines() == [opened, opened, "ended"]
    assert not done.stderr


@pytest.mark.parametrize("threads", THREADS)
def test_they_end_when_the_caller_is_killed(threads: str, tmp_path: Path) -> None:
    done = run_script(
        tmp_path / "script.py",
        f"{THREADS[threads]}"
        "import os, signal\n"
        "from tbd_trace.runtime.worker_process import Worker\n"
        "workers = Worker(), Worker()\n"
        "print(*(worker.call(os.getpid) for worker in workers), flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n",
    )
    assert done.returncode == -signal.SIGKILL
    left = [int(word) for word in done.stdout.split()]
    assert len(left) == 2
    assert end_soon(*left, within_s=10)
