"""The virtual environments that hold the frameworks: what goes into one, and which is used."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from tbd_trace import machine, resources
from tbd_trace.errors import StoreError, UsageError

HOME_VARIABLE = "TBD_TRACE_ENVS"
"""Environment variable that names the directory of the environments."""

MARKER = "tbd-trace-env.json"
"""File in an environment that says what it was made of; only a whole one has it."""

UNFINISHED = "tbd-trace-env.part.json"
"""The same file until the environment is whole, and from when it is being removed."""

Status = Literal["ok", "half-made", "broken", "not made"]


@dataclass(frozen=True, slots=True)
class Recipe:
    """What an environment of a framework is made of (``data/frameworks.toml``).

    Attributes:
        framework: ``pytorch``, ``tensorflow`` or ``mxnet``.
        module: what a program imports.
        pythons: Python versions for which all packages have wheels.
        tested: those that the workloads were run with.
        cpu: packages with their versions, to train on a CPU.
        cuda: packages with their versions, to train on a GPU.
        cpu_mib: room that the environment for a CPU takes, in MiB.
        note: what whoever makes it should know, empty when nothing.
    """

    framework: str
    module: str
    pythons: tuple[str, ...]
    tested: tuple[str, ...]
    cpu: tuple[str, ...]
    cuda: tuple[str, ...]
    cpu_mib: int
    note: str

    def packages(self, device: str) -> tuple[str, ...]:
        """Return the packages for ``cpu`` or ``cuda``."""
        return self.cpu if device == "cpu" else self.cuda


@cache
def recipes() -> dict[str, Recipe]:
    """Return the recipe of each framework."""
    tables = tomllib.loads((resources.data() / "frameworks.toml").read_text(encoding="utf-8"))
    return {name: Recipe(framework=name, **_frozen(table)) for name, table in tables.items()}


def _frozen(table: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(v) if isinstance(v, list) else v for key, v in table.items()}


def home() -> Path:
    """Return the directory of the environments: ``$TBD_TRACE_ENVS``, or among the user's data."""
    if named := os.environ.get(HOME_VARIABLE):
        return Path(named).absolute()
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    return data / "tbd-trace" / "envs"


@dataclass(frozen=True, slots=True)
class Environment:
    """The place of a framework's environment, and what its marker says.

    Attributes:
        framework: what it is for.
        directory: where it is, or would be.
        marker: content of the marker file of a whole environment, empty without one.
    """

    framework: str
    directory: Path
    marker: dict[str, Any]

    @property
    def python(self) -> str:
        """Path of its interpreter."""
        return str(self.directory / "bin" / "python")

    @property
    def status(self) -> Status:
        """``ok``, ``half-made``, ``broken`` (its Python was removed) or ``not made``."""
        if self.marker:
            return "ok" if Path(self.python).exists() else "broken"
        return "half-made" if (self.directory / UNFINISHED).is_file() else "not made"

    @property
    def is_foreign(self) -> bool:
        """Whether the directory holds what ``env create`` did not make."""
        return self.status == "not made" and _holds_something(self.directory)


def environment(framework: str, place: Path | None = None) -> Environment:
    """Return the environment of a framework, made or not.

    Args:
        framework: what it is for.
        place: directory of the environments; None means :func:`home`.
    """
    directory = (place or home()).absolute() / framework
    return Environment(framework, directory, _marker(directory))


def _marker(directory: Path) -> dict[str, Any]:
    try:
        content = json.loads((directory / MARKER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _holds_something(directory: Path) -> bool:
    try:
        return any(directory.iterdir())
    except FileNotFoundError:
        return False
    except OSError:  # a file, or a directory that may not be read
        return True


def remove(found: Environment) -> None:
    """Remove an environment, whole or half-made.

    Raises:
        StoreError: it cannot be removed.
        UsageError: there is none, or the directory holds something else.
    """
    if not found.directory.exists():
        raise UsageError(f"there is no environment of {found.framework} in {found.directory}")
    if found.is_foreign:
        raise UsageError(
            f"{found.directory} was not made by tbd-trace env, so it is left alone; "
            f"move it away, or choose another place with --into or {HOME_VARIABLE}"
        )
    unfinished = found.directory / UNFINISHED
    try:
        if found.marker:
            (found.directory / MARKER).rename(unfinished)  # what an interrupt leaves is half-made
        for entry in found.directory.iterdir():
            if entry != unfinished:
                _remove(entry)
        shutil.rmtree(found.directory)
    except OSError as error:
        raise StoreError(f"{error.filename}: cannot be removed ({error.strerror})") from error


def _remove(entry: Path) -> None:
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry)
    else:
        entry.unlink()


def interpreter(framework: str) -> str:
    """Return the interpreter that runs a framework's workloads where the user names none.

    That is the one in the framework's environment, or else this one if it has the framework.

    Raises:
        UsageError: neither is there.
    """
    python = usual_interpreter(framework)
    if machine.framework_version(framework, machine.interpreter(python)) is None:
        raise UsageError(
            f"{framework} is not installed; `tbd-trace env create {framework}` makes an "
            "environment for it, --python PATH names an interpreter that has it"
        )
    return python


def usual_interpreter(framework: str) -> str:
    """Return the interpreter in a framework's environment, or this one where there is none."""
    found = environment(framework)
    return found.python if found.status == "ok" else sys.executable


def frameworks(words: Sequence[str]) -> list[str]:
    """Return the frameworks that words name; ``all`` names every one.

    Raises:
        UsageError: a word names none.
    """
    known = list(recipes())
    for word in words:
        if word.lower() == "cntk":
            raise UsageError(
                "CNTK is retired and installs on no Python of today; "
                "traces of it are read all the same"
            )
        if word not in (*known, "all"):
            raise UsageError(f"there is no framework {word!r}; choose from {', '.join(known)}, all")
    return known if "all" in words else list(dict.fromkeys(words))
