"""Locate and describe the virtual environments of the frameworks."""

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

from tbd_trace import resources
from tbd_trace.errors import StoreError, UsageError
from tbd_trace.machine import inspection

HOME_VARIABLE = "TBD_TRACE_ENVS"  # names the directory of the environments

# In each complete environment: its packages, Python version and creation time.
MARKER = "tbd-trace-env.json"

# The marker's name while the environment is created or removed.
UNFINISHED = "tbd-trace-env.part.json"

Status = Literal["ok", "half-made", "broken", "not made"]


@dataclass(frozen=True, slots=True)
class Recipe:
    """Python versions and packages for a framework's environment (``data/frameworks.toml``)."""

    framework: str  # pytorch, tensorflow or mxnet
    module: str  # name to import
    pythons: tuple[str, ...]  # versions for which all packages have wheels
    tested: tuple[str, ...]  # versions that the workloads were run with
    cpu: tuple[str, ...]  # pinned packages for training on a CPU
    cuda: tuple[str, ...]  # pinned packages for training on a GPU
    cpu_mib: int  # measured size of the CPU environment, in MiB
    note: str  # hint for the user, or empty

    def packages(self, device: str) -> tuple[str, ...]:
        """Return the pinned packages for ``cpu`` or ``cuda``."""
        return self.cpu if device == "cpu" else self.cuda


@cache
def recipes() -> dict[str, Recipe]:
    """Return the recipes by framework."""
    tables = tomllib.loads((resources.data() / "frameworks.toml").read_text(encoding="utf-8"))
    return {name: Recipe(framework=name, **_frozen(table)) for name, table in tables.items()}


def _frozen(table: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(v) if isinstance(v, list) else v for key, v in table.items()}


def home() -> Path:
    """Return the environments' directory: ``$TBD_TRACE_ENVS``, else in the XDG data directory."""
    if named := os.environ.get(HOME_VARIABLE):
        return Path(named).absolute()
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    return data / "tbd-trace" / "envs"


@dataclass(frozen=True, slots=True)
class Environment:
    """Location and state of a framework's environment, which may not exist yet."""

    framework: str
    directory: Path
    marker: dict[str, Any]  # content of the marker file, empty if incomplete

    @property
    def python(self) -> str:
        """Path of the environment's interpreter."""
        return str(self.directory / "bin" / "python")

    @property
    def status(self) -> Status:
        """``ok``, ``half-made``, ``broken`` (its Python was removed) or ``not made``."""
        if self.marker:
            return "ok" if Path(self.python).exists() else "broken"
        return "half-made" if (self.directory / UNFINISHED).is_file() else "not made"

    @property
    def is_foreign(self) -> bool:
        """True if the directory holds files that ``env create`` did not write."""
        return self.status == "not made" and _is_occupied(self.directory)


def environment(framework: str, place: Path | None = None) -> Environment:
    """Return a framework's environment in ``place`` (default :func:`home`), existing or not."""
    directory = (place or home()).absolute() / framework
    return Environment(framework, directory, _marker(directory))


def _marker(directory: Path) -> dict[str, Any]:
    try:
        content = json.loads((directory / MARKER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _is_occupied(directory: Path) -> bool:
    try:
        return any(directory.iterdir())
    except FileNotFoundError:
        return False
    except OSError:  # a file, or an unreadable directory
        return True


def remove(target: Environment) -> None:
    """Delete a complete or half-made environment; raise StoreError if that fails.

    Raises UsageError if it does not exist or the directory holds other files.
    """
    if not target.directory.exists():
        raise UsageError(f"there is no environment of {target.framework} in {target.directory}")
    if target.is_foreign:
        raise UsageError(
            f"{target.directory} was not made by tbd-trace env, so it is left alone; "
            f"move it away, or choose another place with --into or {HOME_VARIABLE}"
        )
    unfinished = target.directory / UNFINISHED
    try:
        if target.marker:
            # First, so that an interrupted removal counts as half-made, not as complete.
            (target.directory / MARKER).rename(unfinished)
        for entry in target.directory.iterdir():
            if entry != unfinished:  # last, as it marks the directory as ours
                _remove(entry)
        shutil.rmtree(target.directory)
    except OSError as error:
        raise StoreError(f"{error.filename}: cannot be removed ({error.strerror})") from error


def _remove(entry: Path) -> None:
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry)
    else:
        entry.unlink()


def interpreter(framework: str) -> str:
    """Return the default interpreter of a framework; raise UsageError if none has it."""
    python = usual_interpreter(framework)
    if inspection.framework_version(framework, inspection.interpreter(python)) is None:
        raise UsageError(
            f"{framework} is not installed; `tbd-trace env create {framework}` makes an "
            "environment for it, --python PATH names an interpreter that has it"
        )
    return python


def usual_interpreter(framework: str) -> str:
    """Return the interpreter of a framework's environment, this one if there is none."""
    installed = environment(framework)
    return installed.python if installed.status == "ok" else sys.executable


def frameworks(words: Sequence[str]) -> list[str]:
    """Expand ``all`` and check framework names; raise UsageError for an unknown one."""
    known = list(recipes())
    for word in words:
        if word.lower() == "cntk":
            raise UsageError(
                "CNTK is retired and cannot be installed on current Python versions; "
                "its traces can still be read"
            )
        if word not in (*known, "all"):
            raise UsageError(f"there is no framework {word!r}; choose from {', '.join(known)}, all")
    return known if "all" in words else list(dict.fromkeys(words))
