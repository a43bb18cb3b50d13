"""Short names of the kernels of real traces, read from the files without tbd-trace."""

from __future__ import annotations

import csv
import gzip
import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from corpus import matching
from fast import slow
from tbd_trace.kernel_names import short_labels

_IN_JSON = re.compile(rb'"cat": ?"kernel", ?"name": ?("(?:[^"\\]|\\.)*")')
_FEWEST = 2_000  # names of all traces; the corpus has more


def _sqlite_names(path: Path) -> Iterator[str]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        if {"CUPTI_ACTIVITY_KIND_KERNEL", "StringIds"} <= tables:
            yield from (
                name
                for (name,) in connection.execute(
                    "SELECT value FROM StringIds WHERE id IN "
                    "(SELECT demangledName FROM CUPTI_ACTIVITY_KIND_KERNEL)"
                )
            )


def _json_names(path: Path) -> Iterator[str]:
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    yield from (json.loads(name) for name in set(_IN_JSON.findall(content)))


def _csv_names(path: Path) -> Iterator[str]:
    lines = path.read_text(errors="replace").splitlines()
    start = next((n for n, line in enumerate(lines) if "Kernel Name" in line), len(lines))
    yield from (row["Kernel Name"] or "" for row in csv.DictReader(lines[start:]))


def _names() -> Iterator[set[str]]:
    for pattern, read in (
        ("nsys/*", _sqlite_names),
        ("ncu/*.csv", _csv_names),
        ("kineto/*", _json_names),
    ):
        for path in matching(pattern):
            yield set(read(path))


@pytest.fixture(scope="module")
def traces() -> list[set[str]]:
    return list(_names())


@slow
@pytest.mark.needs("corpus")
@pytest.mark.parametrize(("width", "most_hashed"), [(80, 0.002), (40, 0.04)])
def test_kernels_of_a_trace_have_different_labels(
    traces: list[set[str]], width: int, most_hashed: float
) -> None:
    found = [short_labels(names, width) for names in traces]
    assert [len(set(labels.values())) for labels in found] == [len(names) for names in traces]
    every = [label for labels in found for label in labels.values()]
    assert len(every) > _FEWEST
    assert all(len(label) <= width for label in every)
    hashed = [label for label in every if re.search(r"~[0-9a-f]{4}$", label)]
    assert len(hashed) <= len(every) * most_hashed
