"""Makes small nvprof databases."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tbd_trace.sources.nvprof.tables import ACTIVITY_PREFIX

Row = dict[str, Any]
Rows = Mapping[str, Sequence[Row]]
START = 1_000_000
PID, TID = 4242, 0xF0001740  # a pthread handle: negative as a signed 32-bit number


def signed(number: int) -> int:
    return number - (1 << 32) if number >= 1 << 31 else number


def host(pid: int = PID, tid: int = TID) -> Row:
    return {"objectKind": 2, "objectId": struct.pack("<III", pid, tid, 0)}


def make(path: Path, strings: Sequence[str], activities: Rows, version: int = 18) -> Path:
    """Write an nvprof database; strings are numbered from 1, as 0 is no string."""
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE Version (version INTEGER)")
        database.execute("INSERT INTO Version VALUES (?)", [version])
        database.execute("CREATE TABLE StringTable (_id_ INTEGER PRIMARY KEY, value TEXT)")
        named = enumerate(["-- null --", *strings])
        database.executemany("INSERT INTO StringTable VALUES (?, ?)", named)
        for kind, rows in activities.items():
            columns = list(dict.fromkeys(name for row in rows for name in row)) or ["start"]
            listed = ", ".join(f'"{name}"' for name in columns)
            table = ACTIVITY_PREFIX + kind
            database.execute(f"CREATE TABLE {table} (_id_ INTEGER PRIMARY KEY, {listed})")
            marks = ", ".join("?" * len(columns))
            database.executemany(
                f"INSERT INTO {table} ({listed}) VALUES ({marks})",
                [[row.get(name) for name in columns] for row in rows],
            )
    database.close()
    return path


def kernel(name: int = 1, start: int = START, correlation: int = 7, **more: Any) -> Row:
    return {
        "name": name, "start": start, "end": start + 50 if start else 0, "deviceId": 0,
        "contextId": 1, "streamId": 7, "correlationId": correlation, **more,
    }  # fmt: skip


def call(cbid: int, correlation: int, start: int = START, **more: Any) -> Row:
    return {
        "cbid": cbid, "start": start, "end": start + 5, "processId": PID,
        "threadId": signed(TID), "correlationId": correlation, **more,
    }  # fmt: skip
