"""The survey of event tables says what SQLite says, asked directly."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nsys_schema import NVTX_DOMAIN, NVTX_PUSH_POP, RUNTIME_CALL, Kernel, Nvtx, Runtime
from nsys_writer import NsysWriter
from tbd_trace.errors import InputError
from tbd_trace.sources.nsys.event_stats import EventStats
from tbd_trace.sources.nsys.tables import NsysTables

ROWS = 3000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    chance = random.Random(5)
    with NsysWriter(tmp_path / "f.sqlite", utc_start_ns=0) as writer:
        processes = [writer.process(pid, "python") for pid in (7, 8)]
        name = writer.string("cudaLaunchKernel")
        for i in range(ROWS):
            process = chance.choice(processes)
            thread = process | chance.randrange(3)
            kind = NVTX_DOMAIN if i % 500 == 3 else NVTX_PUSH_POP
            end = None if i == 77 or kind == NVTX_DOMAIN else i + 5
            writer.add(Nvtx(i, end, kind, text=f"t{i}", globalTid=thread, domainId=i % 3))
            writer.add(Runtime(i, i + 1, RUNTIME_CALL, thread, chance.randrange(ROWS), name))
            kernel = (i, i + 2, 0, 1, 7, chance.randrange(ROWS), process, name, name, name)
            writer.add(Kernel(*kernel, *[0] * 14, None, None, None))
    return tmp_path / "f.sqlite"


def test_against_sqlite(path: Path) -> None:
    sqlite = sqlite3.connect(path)
    tables = NsysTables(path)
    threads = sqlite.execute(
        "SELECT globalTid FROM CUPTI_ACTIVITY_KIND_RUNTIME UNION "
        "SELECT globalTid FROM NVTX_EVENTS WHERE eventType <> 75 ORDER BY 1"
    ).fetchall()
    assert tables.calling_threads().column("globalTid").to_pylist() == [t for (t,) in threads]
    creations = sqlite.execute(
        "SELECT globalTid, domainId, start, text, textId FROM NVTX_EVENTS WHERE eventType = 75"
    ).fetchall()
    assert [tuple(row.values()) for row in tables.domain_creations().to_pylist()] == creations
    scopes = sqlite.execute(
        "SELECT DISTINCT globalPid, deviceId, contextId, 1 FROM CUPTI_ACTIVITY_KIND_KERNEL"
    ).fetchall()
    assert {tuple(row.values()) for row in tables.operation_scopes().to_pylist()} == set(scopes)
    assert tables.recording_end().column("latest_ns").to_pylist() == [ROWS + 4]
    tables.close()


def test_damage_is_an_input_error(path: Path) -> None:
    image = bytearray(path.read_bytes())
    for page in range(4096 * 20, len(image), 4096):
        image[page] = 7
    path.write_bytes(image)
    tables = NsysTables(path)
    with pytest.raises(InputError, match=r"f\.sqlite: damaged or incomplete"):
        tables.calling_threads()
    tables.close()


values = st.one_of(st.none(), st.integers(-2, 2), st.integers(-(2**63), 2**63 - 1))


@example([[(-1, None, -(2**63)), (2**63 - 1, None, 0)]])  # they differ by 2^63 in both columns
@given(st.lists(st.lists(st.tuples(values, values, values), max_size=30), max_size=4))
def test_seen_are_the_distinct_keys_and_the_latest_time(
    batches: list[list[tuple[int | None, int | None, int | None]]],
) -> None:
    seen = EventStats()
    for rows in batches:
        columns = [pa.array([row[i] for row in rows], pa.int64()) for i in range(3)]
        seen.add(pa.record_batch(columns, ["thread", "end", "kind"]), ["kind", "thread"])
    rows = [row for batch in batches for row in batch]
    assert seen.keys == {(kind, thread) for thread, _, kind in rows}
    assert seen.latest == max((end for _, end, _ in rows if end is not None), default=None)
