"""Dumps in a directory: which files are read, of which rank."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import pytest

from made_flight import Made, played, write_dumps
from tbd_trace.analysis.hang.answer import Hang, explain_hang
from tbd_trace.analysis.hang.dump_files import find_dumps
from tbd_trace.errors import CannotAnswerError, InputError, UsageError

GROUPS = {"0": [0, 1, 2], "1": [0, 1]}
STEP = [Made("0", 1), Made("1", 2, shape=(4,)), Made("0", 3)]
PROGRAMS = {rank: [made for made in STEP * 3 if rank in GROUPS[made.group]] for rank in GROUPS["0"]}


@pytest.fixture
def dumps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Dumps of a job in which rank 2 stops before its last call."""
    monkeypatch.setenv("TBD_TRACE_CACHE", str(tmp_path / "cache"))
    programs = {**PROGRAMS, 2: PROGRAMS[2][:-1]}
    return write_dumps(tmp_path / "job", played(programs, GROUPS), GROUPS)


def explained(folder: Path, world_size: int | None = None) -> Hang:
    return explain_hang(folder, world_size)[0]


def test_answer_has_rank_collective_line_and_waiting(dumps: Path) -> None:
    answer = explained(dumps).to_dict()
    assert answer["ranks"] == [2]
    assert answer["collective"] == "all_reduce number 6 of group 0 (default_pg)"
    assert answer["line"] == "/home/user/train.py:3"
    assert answer["waiting"] == [0, 1]
    assert answer["evidence"].startswith("rank 2 never called all_reduce number 6")
    assert answer["since"] == "2023-11-14 22:13:20"


def test_json_dumps_have_the_same_answer_without_line(dumps: Path) -> None:
    programs = {**PROGRAMS, 2: PROGRAMS[2][:-1]}
    other = write_dumps(dumps.with_name("json"), played(programs, GROUPS), GROUPS, "json")
    answer, expected = explained(other).to_dict(), explained(dumps).to_dict()
    assert answer["line"] is None
    for key in ("ranks", "collective", "waiting", "rule"):
        assert answer[key] == expected[key]


def test_pickle_is_preferred_to_json_of_a_rank(dumps: Path) -> None:
    entries = played({**PROGRAMS, 2: PROGRAMS[2][:-1]}, GROUPS)
    write_dumps(dumps, entries, GROUPS, "json")
    assert explained(dumps).to_dict()["line"] == "/home/user/train.py:3"


def test_empty_file_is_that_of_its_rank(dumps: Path) -> None:
    (dumps / "dump_2").write_bytes(b"")
    answer = explained(dumps).to_dict()
    assert (answer["ranks"], answer["rule"]) == ([2], "no dump")
    assert answer["dumps"] == {"0": "records", "1": "records", "2": "empty file"}


def test_dumps_without_records_of_equal_content_are_those_of_their_ranks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TBD_TRACE_CACHE", str(tmp_path / "cache"))
    groups = {"0": [0, 1, 2, 3]}
    programs = {0: [Made("0", 1)], 1: [Made("0", 1)], 2: [], 3: []}
    folder = write_dumps(tmp_path / "job", played(programs, groups), groups)
    empty = (folder / "dump_2").read_bytes()
    assert empty == (folder / "dump_3").read_bytes()
    assert explained(folder).to_dict()["ranks"] == [2, 3]


@pytest.mark.parametrize(("world_size", "ranks"), [(None, [2]), (3, [2]), (2, [])])
def test_rank_beyond_the_dumps(dumps: Path, world_size: int | None, ranks: list[int]) -> None:
    for path in sorted(dumps.iterdir()):
        dump = pickle.loads(path.read_bytes())
        path.write_bytes(pickle.dumps({**dump, "pg_config": {}}, protocol=2))  # as gloo's
    (dumps / "dump_2").unlink()
    assert explained(dumps, world_size).to_dict()["ranks"] == ranks


def test_log_beside_the_dumps_is_quoted(dumps: Path) -> None:
    (dumps / "torchrun.log").write_text(
        "step 1\nE1 api.py:1] failed (exitcode: -9) local_rank: 2 (pid: 77) of binary: python\n"
        "Root Cause (first observed failure):\n[0]:\n  time      : 1\n"
        "  rank      : 2 (local_rank: 2)\n  exitcode  : -9 (pid: 77)\n"
    )
    assert explained(dumps).to_dict()["logs"] == [
        "torchrun.log: the first process that failed is rank 2, with exit code -9",
        "torchrun.log: failed (exitcode: -9) local_rank: 2 (pid: 77) of binary: python",
    ]


def test_cut_dump_is_noted_and_left_out(dumps: Path) -> None:
    whole = (dumps / "dump_2").read_bytes()
    (dumps / "dump_2").write_bytes(whole[: len(whole) // 2])
    answer = explained(dumps)
    assert answer.to_dict()["ranks"] == [2]
    assert "not a complete pickle" in answer.notes[0]


def test_empty_json_is_that_of_its_rank(dumps: Path) -> None:
    (dumps / "dump_2").rename(dumps / "dump_2.json")
    (dumps / "dump_2.json").write_bytes(b"")
    assert explained(dumps).to_dict()["dumps"]["2"] == "empty file"


@pytest.mark.parametrize("kept_bytes", [0, 300])
def test_dump_that_was_being_written_does_not_hide_the_late_rank(
    dumps: Path, kept_bytes: int
) -> None:
    other = dumps / "dump_0"
    other.write_bytes(other.read_bytes()[:kept_bytes])
    answer = explained(dumps).to_dict()
    assert (answer["ranks"], answer["rule"]) == ([2], "never called")


def test_class_in_a_dump_stops_the_answer(dumps: Path) -> None:
    (dumps / "dump_1").write_bytes(b"cposix\nsystem\n(S'true'\ntR.")
    with pytest.raises(InputError, match=r"dump_1: it asks to run posix.system"):
        find_dumps(dumps)


def test_two_dumps_of_a_rank_are_refused(dumps: Path) -> None:
    shutil.copy(dumps / "dump_1", dumps / "again_1")
    with pytest.raises(UsageError, match="both are of rank 1; remove one"):
        find_dumps(dumps)


def test_directory_without_dumps(tmp_path: Path) -> None:
    (tmp_path / "dump_0").write_bytes(b"")
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(CannotAnswerError, match="no Flight Recorder dump"):
        find_dumps(tmp_path)
    with pytest.raises(InputError, match="not a directory"):
        find_dumps(tmp_path / "none")


def test_other_pickles_are_noted(dumps: Path) -> None:
    (dumps / "weights.pickle").write_bytes(pickle.dumps({"a": 1}))
    assert "weights.pickle: not a Flight Recorder dump" in explained(dumps).notes[0]
