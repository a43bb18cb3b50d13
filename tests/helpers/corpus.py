"""Real traces, reference tables and cases, for tests that need them.

Functions that return a path or rows skip the test where it is missing; call them in tests and
fixtures. Those that return `Parameters` are for ``pytest.mark.parametrize``.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from parameters import Parameters
from requirements import CASES, CORPUS, REFERENCE, ROOT, lacks, require

__all__ = ["ROOT"]


def corpus_file(name: str) -> Path:
    """Return a real trace by its path below the corpus, or skip."""
    return _found("corpus", CORPUS / name)


def corpus_file_named(*names: str) -> Path:
    """Return the first real trace with one of some names, in any folder, or skip."""
    folder = corpus_folder()
    found = (path for name in names for path in folder.rglob(name))
    return next(found, None) or lacks("corpus", f"no file {names[0]} in {folder}")


def corpus_folder(name: str = "") -> Path:
    """Return a folder of real traces, or skip."""
    return _found("corpus", CORPUS / name)


def relative(path: Path) -> str:
    """Return the path of a real trace below the corpus."""
    return path.relative_to(CORPUS).as_posix()


def reference_file(name: str) -> Path:
    """Return a reference table or folder of tables, or skip."""
    return _found("reference", REFERENCE / name)


def case_file(name: str) -> Path:
    """Return a file or folder of a case, or skip."""
    return _found("cases", CASES / name)


def _found(requirement: str, path: Path) -> Path:
    require(requirement)
    return path if path.exists() else lacks(requirement, f"{path} is missing")


def reference_rows(name: str) -> list[dict[str, str]]:
    """Return the rows of a reference table, or skip."""
    with reference_file(name).open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def corpus_files(
    *patterns: str,
    where: Callable[[Path], bool] = lambda path: True,
    key: Callable[[Path], Any] | None = None,
    name: Callable[[Path], str] = lambda path: path.name[:60],
) -> Parameters:
    """Return the corpus files of some glob patterns as parameters.

    Args:
        patterns: relative to the corpus.
        where: returns True for files to take; default all.
        key: sort key of a file; default its path.
        name: returns the id of a file's test; default the first 60 letters of its name.
    """

    return Parameters(
        lambda: [
            pytest.param(path, id=name(path))
            for path in sorted(filter(where, matching(*patterns)), key=key)
        ]
    )


def matching(*patterns: str) -> list[Path]:
    """Return the corpus files of each pattern in turn, by path, or skip where there are none."""
    folder = corpus_folder()
    files = [path for pattern in patterns for path in sorted(folder.glob(pattern))]
    return list(dict.fromkeys(files)) or lacks(
        "corpus", f"no files {', '.join(patterns)} in {folder}"
    )


def each_row(name: str, column: str = "file") -> pytest.MarkDecorator:
    """Run a test with the argument ``row`` for each row of a reference table.

    Args:
        name: the table's path below the folder of reference tables.
        column: its last 40 letters are the id of a row's test.
    """

    def rows() -> Iterable[Any]:
        return [pytest.param(row, id=row[column][-40:]) for row in reference_rows(name)]

    return pytest.mark.parametrize("row", Parameters(rows))
