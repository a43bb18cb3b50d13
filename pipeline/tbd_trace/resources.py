"""Where the SQL files and data tables that ship with the package lie."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def _directory(name: str) -> Path:
    """Return the shipped directory, inside the wheel or beside an editable checkout."""
    for candidate in (_PACKAGE / name, _PACKAGE.parents[1] / name):
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(f"tbd-trace is installed without its {name}/ directory; reinstall it")


def queries() -> Path:
    """Return the directory of the SQL files."""
    return _directory("queries")


def data() -> Path:
    """Return the directory of the hardware and classification tables."""
    return _directory("data")
