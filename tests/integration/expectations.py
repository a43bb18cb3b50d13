"""What is known about files of the corpus, and what an independent look shows about the others.

``corpus_expectations.csv`` holds facts about files, not verdicts: whether the file can be read,
whether the program trains, how many steps its author marked, and what ingesting it says. A file
that the table does not list has to follow general rules instead.
"""

from __future__ import annotations

import contextlib
import csv
import re
import sqlite3
from dataclasses import dataclass
from pathlib import Path

TABLE = Path(__file__).with_name("corpus_expectations.csv")
_TRAINS = re.compile(r"backward|backprop|[bdw]grad|bwd|_bw_|optimizer", re.IGNORECASE)
_KERNELS = ("KERNEL", "CONCURRENT_KERNEL")


@dataclass(frozen=True)
class Expected:
    """Facts about one file.

    Args:
        reads: whether it is a profile that can be read.
        trains: whether the program trains; None where the file cannot be read.
        steps: how many training steps its author marked; None where none are marked.
        says: what ingesting it says: how the error begins, or a part of a note; may be empty.
        reason: what the file is.
    """

    reads: bool
    trains: bool | None
    steps: int | None
    says: str
    reason: str


def _expected(row: dict[str, str]) -> Expected:
    return Expected(
        reads=row["reads"] == "yes",
        trains={"yes": True, "no": False}.get(row["trains"]),
        steps=int(row["steps"]) if row["steps"] else None,
        says=row["says"],
        reason=row["reason"],
    )


def expectations() -> dict[str, Expected]:
    """Return the facts by the file's name relative to the corpus."""
    with TABLE.open(newline="", encoding="utf-8") as file:
        return {row["file"]: _expected(row) for row in csv.DictReader(file)}


def shows_training(path: Path) -> bool:
    """Tell whether names of kernels or of ranges speak of a backward pass or an optimizer.

    Reads the file with plain ``sqlite3``; files of other formats are searched as text.
    """
    if not path.read_bytes()[:16].startswith(b"SQLite format 3"):
        return bool(_TRAINS.search(path.read_text("utf-8", "replace")))
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        return any(_TRAINS.search(name) for name in _names(database))


def _names(database: sqlite3.Connection) -> list[str]:
    """Return the names of kernels and NVTX ranges of an nsys or nvprof file."""
    there = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
    strings = "StringIds" if "StringIds" in there else "StringTable"
    key = "id" if strings == "StringIds" else "_id_"
    wanted = [(f"CUPTI_ACTIVITY_KIND_{table}", column) for table in _KERNELS for column in
              ("demangledName", "name")]  # fmt: skip
    wanted += [("NVTX_EVENTS", "textId"), ("CUPTI_ACTIVITY_KIND_MARKER", "name")]
    found: list[str] = []
    for table, column in wanted:
        if column in _columns(database, table):
            found += _texts(database, f"SELECT value FROM {strings} WHERE {key} IN "
                                      f"(SELECT {column} FROM {table})")  # fmt: skip
    if "text" in _columns(database, "NVTX_EVENTS"):
        found += _texts(database, "SELECT DISTINCT text FROM NVTX_EVENTS WHERE text IS NOT NULL")
    return found


def _columns(database: sqlite3.Connection, table: str) -> set[str]:
    return {row[1] for row in database.execute(f"PRAGMA table_info({table})")}


def _texts(database: sqlite3.Connection, statement: str) -> list[str]:
    return [text for (text,) in database.execute(statement)]
