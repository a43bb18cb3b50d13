"""What tests need beside the packages of the project, and the reason where it is missing.

A test or module states it by a mark, ``@pytest.mark.needs("nsys")``: conftest.py skips the test
before its fixtures are set up. A fixture or helper calls `require`. Nothing is asked at import.
Each reason begins with ``needs NAME:``.

``.ci/run`` sets ``TBD_TRACE_TOOLS_REQUIRED`` and ``TBD_TRACE_CORPUS_REQUIRED``, where a requirement
that they cover may not be missing (skips.py).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import NoReturn

import pytest

ROOT = Path(__file__).resolve().parents[2]
CORPUS = Path(os.environ.get("TBD_TRACE_CORPUS", ROOT.parent / "shared" / "traces"))
REFERENCE = CORPUS.parent / "reference"
CASES = CORPUS.parent / "cases"

TOOLS, TRACES = "TBD_TRACE_TOOLS_REQUIRED", "TBD_TRACE_CORPUS_REQUIRED"


@dataclass(frozen=True)
class Requirement:
    """One thing that a test can need.

    Args:
        lack: returns why it is missing, or an empty text.
        variable: the environment variable with which it may not be missing.
        is_tool: True if tests with it are marked ``tool``.
    """

    lack: Callable[[], str]
    variable: str | None = TOOLS
    is_tool: bool = False


def _programs(*names: str) -> str:
    absent = [name for name in names if shutil.which(name) is None]
    return f"{' and '.join(absent)} not installed" if absent else ""


def _folder(what: str, path: Path) -> str:
    return "" if path.is_dir() else f"no {what} at {path} (set TBD_TRACE_CORPUS)"


def _interpreter(framework: str) -> str:
    variable = f"TBD_TRACE_{framework.upper()}_PYTHON"
    return "" if os.environ.get(variable) else f"{variable} names no interpreter"


def _trace_processor() -> str:
    variable = "TBD_TRACE_TRACE_PROCESSOR"
    return _programs("node") if os.environ.get(variable) else f"{variable} names no directory"


def _root() -> str:
    return "" if os.geteuid() == 0 else "this user has fewer rights"


@cache
def _network_namespaces() -> str:
    name = f"tbdtest-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False)
    subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)
    return "" if made.returncode == 0 else "they are not allowed here"


@cache
def _user_namespaces() -> str:
    if absent := _programs("unshare"):
        return absent
    words = ["unshare", "--user", "--map-user=1000", "--map-group=1000", "unshare", "-rnm", "true"]
    done = subprocess.run(words, capture_output=True, check=False)
    return "" if done.returncode == 0 else "they are not allowed here"


def _demangler() -> str:
    from tbd_trace.sources.demangle import can_demangle

    return "" if can_demangle() else "no C++ runtime library"


REQUIREMENTS = {
    "nsys": Requirement(partial(_programs, "nsys"), is_tool=True),
    "nvprof": Requirement(partial(_programs, "nvprof"), is_tool=True),
    "ncu": Requirement(partial(_programs, "ncu"), is_tool=True),
    "chromium": Requirement(partial(_programs, "chromium", "chromedriver"), is_tool=True),
    "tc": Requirement(partial(_programs, "tc", "ip")),
    "demangler": Requirement(_demangler),
    "tensorflow": Requirement(partial(_interpreter, "tensorflow")),
    "mxnet": Requirement(partial(_interpreter, "mxnet")),
    "corpus": Requirement(partial(_folder, "real traces", CORPUS), TRACES),
    "reference": Requirement(partial(_folder, "reference tables", REFERENCE), TRACES),
    "cases": Requirement(partial(_folder, "cases", CASES), TRACES),
    # Not of every machine that runs all other tests.
    "setpriv": Requirement(partial(_programs, "setpriv"), None),
    "trace_processor": Requirement(_trace_processor, None),
    "root": Requirement(_root, None),
    "network_namespaces": Requirement(_network_namespaces, None),
    "user_namespaces": Requirement(_user_namespaces, None),
}


def reason(name: str) -> str:
    """Return why a requirement is missing, or an empty text."""
    lack = REQUIREMENTS[name].lack()
    return lack and f"needs {name}: {lack}"


def require(*names: str) -> None:
    """Skip the test if one of its requirements is missing."""
    if found := first_reason(names):
        pytest.skip(found)


def first_reason(names: tuple[str, ...]) -> str:
    """Return why the first missing one of some requirements is missing, or an empty text."""
    return next(filter(None, map(reason, names)), "")


def lacks(name: str, what: str) -> NoReturn:
    """Skip the test because a requirement is there in part only."""
    assert name in REQUIREMENTS
    pytest.skip(f"needs {name}: {what}")


def program(name: str) -> str:
    """Return the path of a program whose requirement is met."""
    found = shutil.which(name)
    assert found is not None
    return found
