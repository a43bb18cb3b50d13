"""Distributed jobs: files of ranks, and the rank of each trace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import tbd_trace
from fast import one_in
from made_kineto import document, event, kernel, launch, operator, write
from tbd_trace.cli.main import app
from tbd_trace.store import Database

STEP = event("user_annotation", "ProfilerStep#0", 0, 100)


def info(rank: Any, world: Any = 2) -> dict[str, Any]:
    return {"distributedInfo": {"backend": "nccl", "rank": rank, "world_size": world}}


def write_rank(directory: Path, name: str, **header: Any) -> Path:
    # The start differs by name, so that no two files are the same.
    step = STEP | {"ts": sum(map(ord, name))}
    return write(directory / name, document([step], **header))


def ingest(tmp_path: Path, *arguments: Any, job: str = "llama") -> Any:
    database = str(tmp_path / "jobs.duckdb")
    return CliRunner().invoke(app, ["ingest", "--job", job, "--db", database, *map(str, arguments)])


def ranks(tmp_path: Path) -> list[tuple[Any, ...]]:
    database = Database(tmp_path / "jobs.duckdb")
    found = tbd_trace.open(db=database.path).sql(
        "SELECT name, job, rank, world_size, backend, evidence "
        "FROM job_rank JOIN trace USING (trace_id) ORDER BY name"
    )
    return found.rows()


@pytest.mark.slow
def test_rank_and_world_size_come_from_the_header(tmp_path: Path) -> None:
    # The names are those of other ranks: the header wins.
    write_rank(tmp_path, "rank7.json", **info(0))
    write_rank(tmp_path, "rank8.json", **info("1", "2"))
    result = ingest(tmp_path, tmp_path / "rank7.json", tmp_path / "rank8.json")
    assert result.exit_code == 0, result.output
    assert "missing" not in result.output
    assert ranks(tmp_path) == [
        ("rank7.json", "llama", 0, 2, "nccl", "distributedInfo"),
        ("rank8.json", "llama", 1, 2, "nccl", "distributedInfo"),
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("world", "others"), [(1, None), (2, "1 more file"), (4, "3 more files")])
def test_a_note_about_several_files_is_said_once(
    tmp_path: Path, world: int, others: str | None
) -> None:
    for rank in range(world):
        step, flow = STEP | {"ts": rank}, STEP | {"cat": "ac2g", "ph": "s", "id": 1}
        write(tmp_path / f"rank{rank}.json", document([step, flow], **info(rank, world)))
    result = ingest(tmp_path, *(tmp_path / f"rank{rank}.json" for rank in range(world)))
    notes = [line for line in result.stderr.splitlines() if "not stored" in line]
    assert notes[0].startswith("note: rank0.json: events derived from others, not stored: ac2g 1")
    text = notes[0].removeprefix("note: rank0.json: ")
    assert notes[1:] == ([f"note: {others}: {text}"] if others else [])
    assert result.stderr.count(" of a distributed job") == world


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    one_in(4, ["rank3.json", "my_RANK-3.json", "rank=3.json", "worker3.json"], then_one_in=3),
)
def test_rank_from_the_file_name(tmp_path: Path, name: str) -> None:
    write_rank(tmp_path, name)
    result = ingest(tmp_path, tmp_path / name)
    assert "1 of 4 ranks; missing 0, 1, 2" in result.output
    assert ranks(tmp_path) == [(name, "llama", 3, None, None, "file name")]


@pytest.mark.slow
@pytest.mark.parametrize(
    "value", one_in(4, [True, "9" * 5000, 1.5, None, -1, [1], "x", 2**40], then_one_in=3)
)
def test_a_header_without_a_usable_rank(tmp_path: Path, value: Any) -> None:
    write_rank(tmp_path, "some.json", **info(value))
    result = ingest(tmp_path, tmp_path / "some.json")
    assert result.exit_code == 0, result.output
    assert "rank of some.json unknown" in result.output
    assert ranks(tmp_path)[0][2] is None


@pytest.mark.slow
def test_folders_of_ranks(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    for rank in (0, 1, 2):
        (folder / f"rank={rank}").mkdir(parents=True)
        # The name of the file says nothing; that of its folder does.
        write_rank(folder / f"rank={rank}", f"{rank}trace.pt.trace.json")
    result = ingest(tmp_path, folder)
    assert result.exit_code == 0, result.output
    assert [row[2] for row in ranks(tmp_path)] == [0, 1, 2]


@pytest.mark.slow
def test_a_folder_with_other_files(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    write_rank(folder, "rank0.json", **info(0))
    write_rank(folder, "rank1.json", **info(1))
    (folder / "truth.json").write_text("{}")
    assert ingest(tmp_path, folder).exit_code == 0
    assert [row[0] for row in ranks(tmp_path)] == ["run/rank0.json", "run/rank1.json"]


@pytest.mark.slow
def test_two_files_of_one_rank_are_refused(tmp_path: Path) -> None:
    write_rank(tmp_path, "rank0.json", **info(1))
    write_rank(tmp_path, "rank1.json", **info(1))
    result = ingest(tmp_path, tmp_path / "rank0.json", tmp_path / "rank1.json")
    assert result.exit_code == 2
    # Nothing of the call stays.
    assert not Database(tmp_path / "jobs.duckdb").trace_ids()


@pytest.mark.slow
def test_ranks_from_names_although_the_headers_clash(tmp_path: Path) -> None:
    write_rank(tmp_path, "rank0.json", **info(1))
    write_rank(tmp_path, "rank1.json", **info(1))
    result = ingest(
        tmp_path, tmp_path / "rank0.json", tmp_path / "rank1.json", "--rank-from", "name"
    )
    assert result.exit_code == 0, result.output
    assert [row[2:] for row in ranks(tmp_path)] == [
        (0, 2, "nccl", "file name"),
        (1, 2, "nccl", "file name"),
    ]


@pytest.mark.slow
def test_a_file_can_be_in_two_jobs_and_by_itself(tmp_path: Path) -> None:
    path = write_rank(tmp_path, "rank0.json", **info(0))
    ingest(tmp_path, path, job="first")
    ingest(tmp_path, path, job="second")
    CliRunner().invoke(app, ["ingest", "--db", str(tmp_path / "jobs.duckdb"), str(path)])
    again = ingest(tmp_path, path, job="second")
    assert "already there" in again.output
    assert sorted(str(row[1]) for row in ranks(tmp_path)) == ["None", "first", "second"]


@pytest.mark.slow
def test_a_damaged_rank_does_not_stop_the_others(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    write_rank(folder, "rank0.json", **info(0))
    (folder / "rank1.json").write_text("nothing")
    result = ingest(tmp_path, folder)
    assert result.exit_code == 1
    assert "1 of 2 ranks; missing 1" in result.output
    assert [row[2] for row in ranks(tmp_path)] == [0]


@pytest.mark.parametrize("what", ["empty folder", "no name", "no job"])
def test_wrong_requests(tmp_path: Path, what: str) -> None:
    (tmp_path / "empty").mkdir()
    path = write_rank(tmp_path, "rank0.json")
    if what == "empty folder":
        result = ingest(tmp_path, tmp_path / "empty")
        assert result.exit_code == 1
    elif what == "no name":
        result = ingest(tmp_path, path, job=" ")
        assert result.exit_code == 2
    else:
        arguments = ["ingest", "--db", str(tmp_path / "jobs.duckdb"), "--rank-from", "name"]
        result = CliRunner().invoke(app, [*arguments, str(path)])
        assert result.exit_code == 2


@pytest.mark.usefixtures("elsewhere")
def test_records_of_collectives(tmp_path: Path) -> None:
    described = {
        "Collective name": "allreduce", "In msg nelems": 1000, "Out msg nelems": 1000,
        "Group size": 2, "dtype": "Float", "Process Group Name": "0",
        "Process Group Ranks": "[0, 1]", "Seq": 5,
    }  # fmt: skip
    gloo = {"Input Dims": [[10, 20], [5], []], "Input type": ["float", "float", "float"]}
    events = [
        operator("record_param_comms", 10, 5, **described),
        launch(12, 1),
        kernel(20, 30, 1, name="ncclDevKernel_AllReduce", **described),
        kernel(60, 5, 2, name="gemm"),
        event("user_annotation", "gloo:all_reduce", 70, 7, args=gloo),
        event("user_annotation", "gloo:barrier", 80, 7, args={}),
    ]
    path = write(tmp_path / "rank1.json", document(events, **info(1)))
    with tbd_trace.open(path) as traces:
        found = traces.sql(
            "SELECT source, kind, start_ns, end_ns, group_ranks, group_size, sequence, "
            "input_elements, output_elements, dtype FROM collective_record ORDER BY start_ns"
        ).rows()
    args = ("[0, 1]", 2, 5, 1000, 1000, "Float")
    assert found == [
        ("operator", "allreduce", 10_000, 15_000, *args),
        ("kernel", "allreduce", 20_000, 50_000, *args),
        ("gloo", "all_reduce", 70_000, 77_000, None, None, None, 206, None, "float"),
        ("gloo", "barrier", 80_000, 87_000, None, None, None, None, None, None),
    ]
