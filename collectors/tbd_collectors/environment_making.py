"""Making the virtual environment of a framework: venv, then pip, then a look whether it works.

A virtual environment cannot be made beside its place and renamed, because its scripts hold its
path. So a file says from the beginning whose the directory is, and gets the marker's name when the
environment is whole; whatever lacks the marker is made anew. pip is left to its configuration.
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
from tbd_trace import machine
from tbd_trace.errors import StoreError, TbdTraceError, UsageError

_LOG = "install.log"
_MAKE_ROOM = "make room, or choose another place with --into"
_NO_ROOM = re.compile(r"No space left on device|Disk quota exceeded")
_NO_NETWORK = re.compile(
    r"NewConnectionError|NameResolutionError|name resolution|Network is unreachable"
    r"|Connection (?:refused|reset|to \S+ timed out)|ConnectTimeout|Read timed out|ProxyError"
    r"|CERTIFICATE_VERIFY_FAILED"
)
_NO_PACKAGE = re.compile(r"No matching distribution found for (?P<package>\S+)")
_NO_VENV = re.compile(r"ensurepip is not available|No module named '?(?:venv|ensurepip)")


class EnvironmentMakingError(TbdTraceError):
    """An environment could not be made; nothing of it is left. Exit code 1."""


@dataclass(frozen=True, slots=True)
class Made:
    """What came of a request for an environment: the environment, and whether it is new."""

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
    """Make the environment of a framework, unless it is there.

    Args:
        framework: what it is for.
        device: ``cpu`` or ``cuda``: which build of the framework.
        into: directory of the environments; None means the usual one.
        python: interpreter to make it with; None looks for one that has wheels.
        force: make it anew if it is there.
        say: called with what is done next.
        on_line: called with each line that pip prints.

    Raises:
        EnvironmentMakingError: it could not be made; nothing is left.
        StoreError: the directory cannot be written.
        UsageError: no Python has wheels, or the directory holds something else.
        KeyboardInterrupt: the user pressed Ctrl-C; nothing is left.
    """
    recipe = recipes()[framework]
    place = environment(framework, into)
    with _locked(place.directory):
        there = environment(framework, into)
        if there.status == "ok" and not force:
            return Made(there, is_new=False)
        base = _base(recipe, python)
        _check_room(recipe, device, place.directory.parent)
        with _restored_on_failure(there):
            _Making(recipe, device, place, base, say, on_line).make()
    return Made(environment(framework, into), is_new=True)


@dataclass(frozen=True, slots=True)
class _Making:
    """The steps that make an environment; arguments as those of :func:`create`."""

    recipe: Recipe
    device: str
    place: Environment
    base: str
    say: Callable[[str], None]
    on_line: Callable[[str], None]

    def make(self) -> None:
        """Make it.

        Raises:
            EnvironmentMakingError: a step failed.
        """
        packages = self.recipe.packages(self.device)
        about = {"framework": self.recipe.framework, "device": self.device, "pins": packages}
        self._describe(about)
        if self.recipe.note:
            self.say(self.recipe.note)
        self.say(f"making {self.place.directory} with {self.base}")
        self._step([*_venv(self.base), str(self.place.directory)])
        self.say(f"installing {', '.join(packages)}")
        pip = [self.place.python, "-I", "-m", "pip", "install", "--no-input"]
        self._step([*pip, "--disable-pip-version-check", *packages])
        self.say(f"importing {self.recipe.module}")
        self._import()
        found = machine.interpreter(self.place.python)
        created = datetime.now(UTC).isoformat(timespec="seconds")
        self._describe({**about, "python": found["python"], "created": created})
        (self.place.directory / UNFINISHED).rename(self.place.directory / MARKER)

    def _describe(self, content: Mapping[str, Any]) -> None:
        """Write what the environment is made of, not yet under the marker's name."""
        directory = self.place.directory
        try:
            directory.mkdir(parents=True, exist_ok=True)
            write_json(directory / UNFINISHED, dict(content))
        except OSError as error:
            raise StoreError(f"{directory}: cannot be written ({error.strerror})") from error

    def _execute(self, argv: Sequence[str]) -> Completed:
        return run(
            argv,
            environment={},
            directory=Path.cwd(),  # from where pip's configuration may name directories
            timeout_s=math.inf,  # downloads take as long as they take
            log=self.place.directory / _LOG,
            on_line=self.on_line,
        )

    def _step(self, argv: Sequence[str]) -> None:
        completed = self._execute(argv)
        if completed.returncode != 0:
            self._fail(self._reason("\n".join(completed.tail)) or completed.last_words())

    def _import(self) -> None:
        module = self.recipe.module
        # isolated: only what the environment holds counts
        completed = self._execute([self.place.python, "-I", "-c", f"import {module}, nvtx"])
        if completed.returncode != 0:
            last = completed.last_words()
            self._fail(f"{module} is installed but cannot be imported: {last}")

    def _fail(self, reason: str) -> NoReturn:
        what = f"the environment of {self.recipe.framework}"
        raise EnvironmentMakingError(f"{what} was not made: {reason}")

    def _reason(self, said: str) -> str:
        """Return in a user's words why venv or pip failed, empty where that is not known."""
        if _NO_ROOM.search(said):
            return f"no space is left for it{_takes(self.recipe, self.device)}; {_MAKE_ROOM}"
        if _NO_NETWORK.search(said):
            return (
                "pip cannot reach the package index; look at the network and the proxy, or name "
                "an index in PIP_INDEX_URL, a directory of wheels in PIP_FIND_LINKS"
            )
        if match := _NO_PACKAGE.search(said):
            none = ", nor any other version of it" if "(from versions: none)" in said else ""
            where = f"`{self.base} -m pip config list` shows where it looks"
            tested = f"tested: Python {_listed(self.recipe.tested)}"
            return f"pip finds no {match['package']} for {self.base}{none} ({where}); {tested}"
        if _NO_VENV.search(said):
            return f"{self.base} has no venv or no ensurepip (Debian: apt-get install python3-venv)"
        return ""


def _venv(python: str) -> list[str]:
    """Return the command line to which the directory of a virtual environment is added."""
    return [python, "-I", "-m", "venv"]


def _base(recipe: Recipe, python: str | None) -> str:
    """Return the interpreter to make an environment with: the first that has wheels.

    Raises:
        UsageError: the one that is named has none, or none is found.
    """
    first = python or sys.executable
    others = [] if python else [f"python{version}" for version in reversed(recipe.pythons)]
    for candidate in [first, *filter(None, map(shutil.which, others))]:
        if _version(candidate, required=candidate == first) in recipe.pythons:
            return candidate
    raise UsageError(
        f"{recipe.framework} has wheels for Python {_listed(recipe.pythons)} alone, and {first} "
        f"is {_version(first, required=True)}; install one of them and name it with --python PATH"
    )


def _version(python: str, *, required: bool) -> str:
    """Return an interpreter's version as ``3.11``, empty where it does not run."""
    try:
        return ".".join(machine.interpreter(python)["python"].split(".")[:2])
    except UsageError:
        if required:
            raise
        return ""


def _listed(versions: Sequence[str]) -> str:
    return ", ".join(versions)


def _check_room(recipe: Recipe, device: str, directory: Path) -> None:
    """Make sure that an environment has room, where it is known how much it takes.

    Raises:
        EnvironmentMakingError: it has not.
    """
    while not directory.exists():
        directory = directory.parent
    free = shutil.disk_usage(directory).free // 2**20
    if device == "cpu" and free < recipe.cpu_mib:
        raise EnvironmentMakingError(
            f"the environment of {recipe.framework} was not made: {directory} has {free:,} MiB "
            f"left for it{_takes(recipe, device)}; {_MAKE_ROOM}"
        )


def _takes(recipe: Recipe, device: str) -> str:
    return f", which takes about {recipe.cpu_mib:,} MiB" if device == "cpu" else ""


@contextlib.contextmanager
def _restored_on_failure(there: Environment) -> Iterator[None]:
    """Make room for an environment; if it does not become whole, put back the one that was there.

    Raises:
        StoreError: the one that is there cannot be moved or removed.
        UsageError: the directory holds something else.
    """
    old = _hidden(there.directory, "old")
    if there.status == "ok":
        shutil.rmtree(old, ignore_errors=True)
        there.directory.rename(old)
    elif there.directory.exists():
        remove(there)
    try:
        yield
    except BaseException:
        # What cannot be removed now is half-made, and made anew the next time.
        with contextlib.suppress(TbdTraceError):
            remove(environment(there.framework, there.directory.parent))
        with contextlib.suppress(OSError):
            old.rename(there.directory)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _hidden(directory: Path, purpose: str) -> Path:
    return directory.with_name(f".{directory.name}.{purpose}")


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Keep other processes from making the same environment at the same time.

    Raises:
        StoreError: the directory of the environments cannot be written.
        UsageError: another process is at it.
    """
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
