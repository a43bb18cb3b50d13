"""Locate the SQL files and data tables that ship with the package."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def _directory(name: str) -> Path:
    # Inside the wheel, or beside the package in an editable checkout.
    for candidate in (_PACKAGE / name, _PACKAGE.parents[1] / name):
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(f"tbd-trace is installed without its {name}/ directory; reinstall it")


def queries() -> Path:
    """Return the directory of the SQL files."""
    return _directory("queries")


def sql_files(kind: str) -> dict[str, Path]:
    """Return the SQL files of a kind by name, sorted, whatever topic folder each is in.

    Args:
        kind: ``canonical``, ``derive``, ``metrics``, ``checks``, ``diff``, ``export`` or
            ``macros``.
    """
    return _sql_files(queries() / kind)


@cache
def _sql_files(directory: Path) -> dict[str, Path]:
    files = {path.stem: path for path in directory.rglob("*.sql")}
    return dict(sorted(files.items()))


def data() -> Path:
    """Return the directory of the hardware and classification tables."""
    return _directory("data")


def data_rows(name: str) -> list[dict[str, str]]:
    """Return the rows of a CSV table in the directory ``data``, such as ``step_causes``."""
    with (data() / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
