"""Dumps of the Flight Recorder as pickle and JSON, and files that are none."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from made_flight import Made, document, played, write_dumps
from tbd_trace.errors import InputError
from tbd_trace.sources.flight_recorder.dump import load_dump, looks_like_dump, rank_in_name
from tbd_trace.sources.flight_recorder.groups import group_rows
from tbd_trace.sources.flight_recorder.records import record_row
from tbd_trace.sources.plain_pickle import NamesCodeError

GROUPS = {"0": [0, 1], "7": [0, 1]}
PROGRAMS = {rank: [Made("0", 3), Made("7", 4, "broadcast", (2, 5), "Long")] for rank in (0, 1)}


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch /tmp/never",)


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("_dump_12", 12),
        ("nccl_trace_rank_3", 3),
        ("rank3_of_8.pickle", 3),
        ("dump_07.json", 7),
        ("5.pkl.gz", 5),
        ("dump", None),
    ],
)
def test_rank_is_in_name(name: str, rank: int | None) -> None:
    assert rank_in_name(name) == rank


def test_json_is_the_pickle_without_stacks(tmp_path: Path) -> None:
    entries = played(PROGRAMS, GROUPS)
    write_dumps(tmp_path, entries, GROUPS)
    write_dumps(tmp_path, entries, GROUPS, "json")
    pickled, parsed = load_dump(tmp_path / "dump_1"), load_dump(tmp_path / "dump_1.json")
    rows = [[record_row(e, n) for n, e in enumerate(d["entries"])] for d in (pickled, parsed)]
    assert [(row["function"], row["line"]) for row in rows[0]] == [("step", 3), ("step", 4)]
    for row in rows[0]:
        row.update(function=None, file=None, line=None)
    assert rows[0] == rows[1]
    for path in (tmp_path / "dump_1", tmp_path / "dump_1.json"):
        assert looks_like_dump(path.read_bytes()[:65536])


def test_row_of_send_has_peer() -> None:
    row = record_row({"profiling_name": "nccl:recv 0<-8", "is_p2p": True}, 4)
    assert (row["backend"], row["operation"], row["peer"]) == ("nccl", "recv", 8)
    assert (row["record_id"], row["is_point_to_point"], row["is_retired"]) == (4, True, False)


def test_class_in_pickle_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "dump_0"
    path.write_bytes(pickle.dumps({"version": "2.10", "entries": [Evil()]}, protocol=2))
    with pytest.raises(NamesCodeError, match=r"it asks to run posix.system.*Nothing was run"):
        load_dump(path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"version": "2.', "damaged JSON"),
        (b'{"a": 1}', "not a Flight Recorder dump"),
        (b'{"version": "1.0", "entries": []}', "dump of version 1.0"),
        (b'{"version": "2.1", "entries": {}}', "`entries` is not a list"),
        (pickle.dumps([1], protocol=2), "not a Flight Recorder dump"),
        (pickle.dumps({"version": "2.10"}, protocol=2)[:-4], "not a complete pickle"),
    ],
)
def test_other_files_are_refused(content: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "dump_0"
    path.write_bytes(content)
    with pytest.raises(InputError, match=reason):
        load_dump(path)


def test_status_is_joined_by_entries_else_by_order() -> None:
    entries = played(PROGRAMS, GROUPS)[0]
    dump = document(entries, GROUPS, 0)
    # Local ids differ from names; the second group has no entries.
    dump["pg_status"] = {"0": dump["pg_status"]["0"], "2": dump["pg_status"]["7"]}
    known = [entry for entry in entries if entry["process_group"][0] == "0"]
    rows = {row["group_name"]: row for row in group_rows(dump, known)}
    assert [(name, row["local_group_id"], row["evidence"]) for name, row in rows.items()] == [
        ("0", 0, "entries"),
        ("7", 2, "order"),
    ]
    assert rows["7"]["last_enqueued"] == 1
    assert json.loads(rows["7"]["ranks"]) == [0, 1]


def test_status_is_not_joined_by_an_order_that_entries_contradict() -> None:
    entries = played(PROGRAMS, GROUPS)[0]
    dump = document(entries, GROUPS, 0)
    known = [{**entry, "pg_id": 7} for entry in entries if entry["process_group"][0] == "0"]
    rows = group_rows(dump, known)
    assert [row.get("evidence") for row in rows] == [None, "entries", None]
