"""Implausible sizes and numbers: how an ingest corrects and reports them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tbd_trace
from fast import one_in
from made_kineto import document, event, kernel, write
from made_memory import Ingested, alloc, block, segment, snapshot, write_log, write_pickle
from tbd_trace.store import Database

LARGEST = 2**63 - 1
AT = 0x7F00_0000_0000  # address


def blocks(**more: Any) -> list[dict[str, Any]]:
    return [block(512, 500) | more, block(1536, address=AT + 512)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "note"),
    one_in(
        6,
        [
            ({"size": LARGEST}, "blocks with an implausible size or address: 1; removed"),
            ({"address": AT - 512}, "blocks with an implausible size or address: 1; removed"),
            ({"size": -1}, "blocks with an implausible size or address: 1; removed"),
            ({"address": 2**64 - 1}, "blocks with an implausible size or address: 1; removed"),
            ({"requested_size": -1}, "blocks with an implausible requested size: 1; it is NULL"),
            (
                {"requested_size": LARGEST},
                "blocks with an implausible requested size: 1; it is NULL",
            ),
        ],
        then_one_in=3,
    ),
)
def test_blocks_of_a_snapshot(more: dict[str, Any], note: str, tmp_path: Path) -> None:
    made = segment(AT, blocks(**more), total_size=2048, allocated_size=512, active_size=512,
        requested_size=500)  # fmt: skip
    sound = segment(AT + (1 << 30), [block(1024, 1024)])
    ingested = Ingested(write_pickle(tmp_path / "made.pickle", snapshot([made, sound])))
    assert note in ingested.notes
    answer = ingested.ask("segment_map").select("segment_id", "offset_bytes", "bytes", "state")
    begin = "live" if "requested" in note else "unrecorded"
    assert answer.rows() == [
        (1, 0, 512, begin), (1, 512, 1536, "free"), (2, 0, 1024, "live"),
    ]  # fmt: skip
    (found,) = ingested.ask("fragmentation").to_dicts()
    assert found["reserved_bytes"] == 3072


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    one_in(4, ["total_size", "requested_size", "allocated_size", "active_size"], then_one_in=3),
)
@pytest.mark.parametrize("size", [LARGEST, -1])
def test_segments_of_a_snapshot(name: str, size: int, tmp_path: Path) -> None:
    made = segment(AT, [block(2048, 2048)], **{name: size})
    sound = segment(AT + (1 << 30), [block(1024, 1024)])
    ingested = Ingested(write_pickle(tmp_path / "made.pickle", snapshot([made, sound])))
    assert "segments with an implausible size: 1; removed" in ingested.notes
    (found,) = ingested.ask("segment_map").to_dicts()
    assert (found["segment_id"], found["bytes"]) == (1, 1024)


@pytest.mark.slow
@pytest.mark.parametrize("bytes_before", [LARGEST, 1 << 50])
def test_totals_of_a_memory_log(bytes_before: int, tmp_path: Path) -> None:
    path = write_log(tmp_path / "memory.jsonl", [alloc(1, 1, 512)], live_before_bytes=bytes_before)
    ingested = Ingested(path)
    assert "totals of an allocator with an implausible size: 1; it is NULL" in ingested.notes
    (found,) = ingested.ask("memory_peak").to_dicts()
    assert found["peak_requested_bytes"] == 512


@pytest.mark.slow
@pytest.mark.parametrize("time", [2**62, -(2**63)])
def test_times_of_a_memory_log_beyond_64_bits(time: int, tmp_path: Path) -> None:
    events = [alloc(1, 4096, 512), alloc(time, 8192, 512)]
    ingested = Ingested(write_log(tmp_path / "memory.jsonl", events))
    (found,) = ingested.ask("memory_peak").to_dicts()
    assert (found["peak_requested_bytes"], found["allocations"]) == (1024, 2)


@pytest.mark.parametrize("size", [LARGEST, 1 << 50])
def test_sizes_of_a_memory_log(size: int, tmp_path: Path) -> None:
    events = [alloc(1, 4096, 512), alloc(2, 8192, size)]
    ingested = Ingested(write_log(tmp_path / "memory.jsonl", events))
    assert "memory events with an implausible size: 1; it is NULL" in ingested.notes


def collectives(path: Path, **arguments: Any) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the notes and rows of a profile with two collectives, one with these arguments."""
    described = {"Collective name": "allreduce", "In msg nelems": 1000, "Out msg nelems": 1000,
        "Group size": 2, "dtype": "Float"}  # fmt: skip
    events = [
        kernel(20, 30, 1, name="ncclDevKernel_AllReduce", **described),
        kernel(60, 30, 2, name="ncclDevKernel_AllReduce", **described | arguments),
    ]
    database = Database(path / "made.duckdb")
    (report,) = database.ingest([write(path / "made.json", document(events))])
    rows = tbd_trace.open(db=database.path).sql(
        "SELECT input_elements, output_elements, group_size FROM collective_record ORDER BY ALL"
    )
    return report.notes, rows.rows()


@pytest.mark.slow
@pytest.mark.parametrize("elements", one_in(3, [LARGEST, -1, 10**15], then_one_in=2))
@pytest.mark.parametrize("name", ["In msg nelems", "Out msg nelems"])
def test_elements_of_a_collective(name: str, elements: int, tmp_path: Path) -> None:
    notes, found = collectives(tmp_path, **{name: elements})
    assert "collectives with an implausible size: 1; it is NULL" in notes
    assert found == [(1000, 1000, 2), (None, None, 2)]


@pytest.mark.slow
@pytest.mark.parametrize("size", [LARGEST, -1])
def test_ranks_of_a_collective(size: int, tmp_path: Path) -> None:
    notes, found = collectives(tmp_path, **{"Group size": size})
    assert "collectives with an implausible number of ranks: 1; it is NULL" in notes
    assert found == [(1000, 1000, 2), (1000, 1000, None)]


@pytest.mark.slow
def test_dimensions_of_inputs_beyond_64_bits(tmp_path: Path) -> None:
    gloo = {"Input Dims": [[LARGEST, LARGEST]], "Input type": ["float"]}
    events = [event("user_annotation", "gloo:all_reduce", 70, 7, args=gloo)]
    database = Database(tmp_path / "made.duckdb")
    database.ingest([write(tmp_path / "made.json", document(events))])
    with tbd_trace.open(db=database.path) as traces:
        assert traces.sql("SELECT input_elements FROM collective_record").rows() == [(None,)]
