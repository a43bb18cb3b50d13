"""Create the virtual environment of a framework: venv, pip install, then an import test.

Scripts in a virtual environment contain its path, so it cannot be built elsewhere and renamed.
The directory therefore holds a file from the start that marks it as ours and unfinished; the file
is renamed to the marker at the end, and a directory without the marker is rebuilt. pip keeps the
user's configuration.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from tbd_collectors.capture_writer import write_json
from tbd_collectors.environments import (
    MARKER,
    UNFINISHED,
    Environment,
    Recipe,
    environment,
    recipes,
    remove,
)
from tbd_collectors.process import Completed, run
from tbd_trace.errors import StoreError, TbdTraceError, UsageError
from tbd_trace.machine import inspection

_LOG = "install.log"
_MAKE_ROOM = "make room, or choose another place with --into"
# Messages of pip, urllib3 and the operating system; they decide what advice the user gets.
_NO_ROOM = re.compile(r"No space left on device|Disk quota exceeded")
_NO_NETWORK = re.compile(
    r"NewConnectionError|NameResolutionError|name resolution|Network is unreachable"
    r"|Connection (?:refused|reset|to \S+ timed out)|ConnectTimeout|Read timed out|ProxyError"
    r"|CERTIFICATE_VERIFY_FAILED"
)
_NO_PACKAGE = re.compile(r"No matching distribution found for (?P<package>\S+)")
_NO_VENV = re.compile(r"ensurepip is not available|No module named '?(?:venv|ensurepip)")


class EnvironmentMakingError(TbdTraceError):
    """An environment could not be created and was removed again. Exit code 1."""


@dataclass(frozen=True, slots=True)
class Made:
    """Environment returned by :func:`create`; ``is_new`` if the call created it."""

    environment: Environment
    is_new: bool


def create(
    framework: str,
    device: str,
    *,
    into: Path | None = None,
    python: str | None = None,
    force: bool = False,
    say: Callable[[str], None],
    on_line: Callable[[str], None],
) -> Made:
    """Create the environment of a framework for ``cpu`` or ``cuda``; ``force`` recreates it.

    ``into`` is the directory of the environments (default :func:`environments.home`), ``python``
    the base interpreter (default: the first found that has wheels), ``say`` gets a line before
    each step, ``on_line`` each line of pip. After an error nothing remains.

    Raises:
        EnvironmentMakingError: a step failed.
        StoreError: the directory cannot be written.
        UsageError: no suitable Python, or the directory holds other files.
        KeyboardInterrupt: the user pressed Ctrl-C.
    """
    recipe = recipes()[framework]
    wanted = environment(framework, into)
    with _locked(wanted.directory):
        # Read again under the lock: another process may have created it since.
        existing = environment(framework, into)
        if existing.status == "ok" and not force:
            return Made(existing, is_new=False)
        base = _base(recipe, python)
        _check_room(recipe, device, wanted.directory.parent)
        with _restored_on_failure(existing):
            _Making(recipe, device, wanted, base, say, on_line).make()
    return Made(environment(framework, into), is_new=True)


@dataclass(frozen=True, slots=True)
class _Making:
    recipe: Recipe
    device: str
    target: Environment
    base: str
    say: Callable[[str], None]
    on_line: Callable[[str], None]

    def make(self) -> None:
        """Execute the steps; raise EnvironmentMakingError if one fails."""
        packages = self.recipe.packages(self.device)
        about = {"framework": self.recipe.framework, "device": self.device, "pins": packages}
        self._describe(about)
        if self.recipe.note:
            self.say(self.recipe.note)
        self.say(f"making {self.target.directory} with {self.base}")
        self._step([*_venv(self.base), str(self.target.directory)])
        self.say(f"installing {', '.join(packages)}")
        # -I: neither PYTHONPATH nor the user's site-packages may satisfy a requirement.
        pip = [self.target.python, "-I", "-m", "pip", "install", "--no-input"]
        self._step([*pip, "--disable-pip-version-check", *packages])
        self.say(f"importing {self.recipe.module}")
        self._import()
        interpreter = inspection.interpreter(self.target.python)
        created = datetime.now(UTC).isoformat(timespec="seconds")
        self._describe({**about, "python": interpreter["python"], "created": created})
        # The rename is the commit: only a complete environment has the marker.
        (self.target.directory / UNFINISHED).rename(self.target.directory / MARKER)

    def _describe(self, content: Mapping[str, Any]) -> None:
        directory = self.target.directory
        try:
            directory.mkdir(parents=True, exist_ok=True)
            write_json(directory / UNFINISHED, dict(content))
        except OSError as error:
            raise StoreError(f"{directory}: cannot be written ({error.strerror})") from error

    def _execute(self, argv: Sequence[str]) -> Completed:
        return run(
            argv,
            environment={},
            directory=Path.cwd(),  # pip's configuration may name relative directories
            timeout_s=math.inf,  # downloads of several GB may take hours
            log=self.target.directory / _LOG,
            on_line=self.on_line,
        )

    def _step(self, argv: Sequence[str]) -> None:
        completed = self._execute(argv)
        if completed.returncode != 0:
            self._fail(self._reason("\n".join(completed.tail)) or completed.last_words())

    def _import(self) -> None:
        module = self.recipe.module
        # -I as for pip. nvtx too: without it the workloads record no ranges.
        completed = self._execute([self.target.python, "-I", "-c", f"import {module}, nvtx"])
        if completed.returncode != 0:
            last = completed.last_words()
            self._fail(f"{module} is installed but cannot be imported: {last}")

    def _fail(self, reason: str) -> NoReturn:
        raise EnvironmentMakingError(
            f"the environment of {self.recipe.framework} was not made: {reason}"
        )

    def _reason(self, output: str) -> str:
        # Empty if the output matches no known cause; the caller then quotes its last lines.
        if _NO_ROOM.search(output):
            return f"no space is left for it{_takes(self.recipe, self.device)}; {_MAKE_ROOM}"
        if _NO_NETWORK.search(output):
            return (
                "pip cannot reach the package index; check the network and the proxy, or name "
                "an index in PIP_INDEX_URL, a directory of wheels in PIP_FIND_LINKS"
            )
        if match := _NO_PACKAGE.search(output):
            # "from versions: none" means another Python or platform, not a wrong pin.
            none = ", nor any other version of it" if "(from versions: none)" in output else ""
            where = f"`{self.base} -m pip config list` shows where it looks"
            tested = f"tested: Python {_listed(self.recipe.tested)}"
            return f"pip finds no {match['package']} for {self.base}{none} ({where}); {tested}"
        if _NO_VENV.search(output):
            return f"{self.base} has no venv or no ensurepip (Debian: apt-get install python3-venv)"
        return ""


def _venv(python: str) -> list[str]:
    return [python, "-I", "-m", "venv"]


def _base(recipe: Recipe, python: str | None) -> str:
    # This interpreter first, then the newest on PATH for which all packages have wheels.
    first = python or sys.executable
    others = [] if python else [f"python{version}" for version in reversed(recipe.pythons)]
    for candidate in [first, *filter(None, map(shutil.which, others))]:
        if _version(candidate, required=candidate == first) in recipe.pythons:
            return candidate
    raise UsageError(
        f"{recipe.framework} has wheels only for Python {_listed(recipe.pythons)}, and {first} "
        f"is {_version(first, required=True)}; install one of them, name it with --python PATH"
    )


def _version(python: str, *, required: bool) -> str:
    # Major and minor version, such as 3.11; empty if an optional interpreter does not run.
    try:
        return ".".join(inspection.interpreter(python)["python"].split(".")[:2])
    except UsageError:
        if required:
            raise
        return ""


def _listed(versions: Sequence[str]) -> str:
    return ", ".join(versions)


def _check_room(recipe: Recipe, device: str, directory: Path) -> None:
    # disk_usage() needs an existing directory.
    while not directory.exists():
        directory = directory.parent
    free = shutil.disk_usage(directory).free // 2**20
    # Only the size of CPU environments was measured (data/frameworks.toml).
    if device == "cpu" and free < recipe.cpu_mib:
        raise EnvironmentMakingError(
            f"the environment of {recipe.framework} was not made: {directory} has {free:,} MiB "
            f"left for it{_takes(recipe, device)}; {_MAKE_ROOM}"
        )


def _takes(recipe: Recipe, device: str) -> str:
    return f", which takes about {recipe.cpu_mib:,} MiB" if device == "cpu" else ""


@contextlib.contextmanager
def _restored_on_failure(existing: Environment) -> Iterator[None]:
    # A rebuild that fails must not cost the user a working environment.
    old = _hidden(existing.directory, "old")
    if existing.status == "ok":
        shutil.rmtree(old, ignore_errors=True)
        existing.directory.rename(old)
    elif existing.directory.exists():
        remove(existing)
    try:
        yield
    except BaseException:
        # Whatever cannot be removed now counts as half-made, and the next call rebuilds it.
        with contextlib.suppress(TbdTraceError):
            remove(environment(existing.framework, existing.directory.parent))
        with contextlib.suppress(OSError):
            old.rename(existing.directory)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _hidden(directory: Path, purpose: str) -> Path:
    return directory.with_name(f".{directory.name}.{purpose}")


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    # The kernel releases flock() when the process ends, so a crash leaves no stale lock.
    path = _hidden(directory, "lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("w")
    except OSError as error:
        raise StoreError(f"{path.parent}: cannot be written ({error.strerror})") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(f"{directory} is being made by another process; wait for it") from None
        yield
