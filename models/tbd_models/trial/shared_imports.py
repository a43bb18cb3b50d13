"""List the modules of a program that its runs can share."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path
from types import FrameType
from typing import Any

_ENVIRONMENT = Path("/proc/self/environ")  # as the program started
_INSTALLED = {"site-packages", "dist-packages"}
_PACKAGES = _INSTALLED | {"tbd_models"}
_STANDARD_LIBRARY = sysconfig.get_path("stdlib")


class SharedImports:
    """The installed modules of this program, unless it sets environment variables.

    Modules may read variables when they are imported. A variable that a module sets is set in every
    run.
    """

    def __init__(self) -> None:
        self._sets_variables = _environment_at_start() != dict(os.environb)
        sys.addaudithook(self._note_variable)

    def modules(self) -> list[str]:
        """Return their names in the order of import; none if the program sets variables."""
        if self._sets_variables:
            return []
        return [name for name, module in list(sys.modules.items()) if _is_installed(module)]

    def _note_variable(self, event: str, _arguments: tuple[Any, ...]) -> None:
        if event in ("os.putenv", "os.unsetenv") and not self._sets_variables:
            self._sets_variables = _is_called_by_program(sys._getframe(1))


def _environment_at_start() -> dict[bytes, bytes]:
    entries = (entry.partition(b"=") for entry in _ENVIRONMENT.read_bytes().split(b"\0") if entry)
    return {name: value for name, _, value in entries}


def _is_called_by_program(frame: FrameType | None) -> bool:
    # By way of os.environ: the standard library sets variables for its callers.
    while frame is not None and _is_standard(frame.f_code.co_filename):
        frame = frame.f_back
    return frame is not None and not _is_of_package(frame.f_code.co_filename)


def _is_standard(file: str) -> bool:
    return file.startswith(("<frozen", _STANDARD_LIBRARY)) and not _is_of_package(file)


def _is_of_package(file: str) -> bool:
    return not _PACKAGES.isdisjoint(Path(file).parts)


def _is_installed(module: Any) -> bool:
    origin = getattr(getattr(module, "__spec__", None), "origin", None)
    return isinstance(origin, str) and not _INSTALLED.isdisjoint(Path(origin).parts)
