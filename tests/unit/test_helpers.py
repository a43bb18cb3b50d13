"""Helpers: other processes that call functions for this one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tbd_trace.helpers import Helper, HelperFailed


@pytest.fixture
def helper() -> Iterator[Helper]:
    started = Helper()
    yield started
    started.close()


def test_another_process_calls_the_function(helper: Helper) -> None:
    assert helper.call(str.split, "a-b", "-") == ["a", "b"]
    assert helper.call(os.getpid) == helper._process.pid != os.getpid()
    assert helper.call(int, "ff", base=16) == 255


def test_what_fails_ends_it(helper: Helper) -> None:
    with pytest.raises(HelperFailed):
        helper.call(int, "no number")
    with pytest.raises(HelperFailed):
        helper.call(int, "1")
    assert helper._process.wait() != 0


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
    monkeypatch.setattr(place, name, value, raising=False)
    with pytest.raises(HelperFailed):
        Helper()


def test_the_callers_script_is_not_run_again(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "print('begun')\n"
        "from tbd_trace.helpers import Helper\n"
        "helper = Helper()\n"
        "print(helper.call(abs, -7))\n"
        "helper.close()\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["begun", "7"]
