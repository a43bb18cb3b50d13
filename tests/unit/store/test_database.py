"""The database: atomic, idempotent, shared by processes, whatever files are called."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import duckdb
import pytest

import made_nsys
from corpus import ROOT
from fast import one_in
from tbd_trace.errors import InputError, StoreError, TbdTraceError, UsageError
from tbd_trace.model.canonical_tables import canonical_tables
from tbd_trace.query import Catalogue, execute
from tbd_trace.query.catalogue import derive_relations
from tbd_trace.sources import registry
from tbd_trace.sources.base import TraceDescription
from tbd_trace.store import Database
from tbd_trace.store.capture import capture_files
from tbd_trace.store.read_errors import reading
from tbd_trace.store.views import views_marker

SAMPLE = ROOT / "data" / "samples" / "synthetic_cnn"


def profile(path: Path, kernels: int = 1) -> Path:
    """Write a small nsys export with so many kernels, which no other has."""
    rows = [made_nsys.kernel(start=1000 + 20 * i, end=1010 + 20 * i) for i in range(kernels)]
    return made_nsys.write(path, {"StringIds": made_nsys.strings(), made_nsys.KERNEL: rows})


def kernels(database: Database) -> int:
    """Count the kernels of all traces by a query."""
    frame = execute(database, Catalogue().get("kernel_summary")).frame
    return int(frame["instances"].sum())


def in_a_shell(path: Path, statement: str) -> list[tuple[Any, ...]]:
    """Return what DuckDB alone makes of a statement on the database's file."""
    with duckdb.connect(str(path), read_only=True) as connection:
        return connection.execute(statement).fetchall()


def everything(directory: Path) -> set[str]:
    """Return all files below a directory."""
    return {str(path.relative_to(directory)) for path in directory.rglob("*")}


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(tmp_path / "db" / "made.duckdb")


# what an ingest does


@pytest.mark.slow
def test_the_trace_row_says_what_was_ingested(database: Database, tmp_path: Path) -> None:
    path = profile(tmp_path / "a.sqlite", kernels=3)
    [report] = database.ingest([path])
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    assert (report.status, report.name, report.kernels) == ("ingested", "a.sqlite", 3)
    assert (report.trace_id, report.format) == (sha256[:12], "nsys-sqlite")
    [row] = database.traces().to_dicts()
    assert (row["trace_id"], row["sha256"], row["path"]) == (sha256[:12], sha256, str(path))
    assert (row["tool"], row["kind"], row["file_bytes"]) == (
        "nsys",
        "timeline",
        path.stat().st_size,
    )
    assert (row["start_ns"], row["end_ns"]) == (1000, 1050)
    assert (row["capture_id"], row["capture"], row["batch_size"]) == (None, None, None)
    assert "kernel" in row["holds"]
    assert {*row["holds"], *row["lacks"]} == set(canonical_tables()) - {"trace"}
    assert not set(row["holds"]) & set(row["lacks"])


@pytest.mark.slow
def test_every_table_is_there_with_its_columns(database: Database, tmp_path: Path) -> None:
    database.ingest([profile(tmp_path / f"{count}.sqlite", count) for count in (1, 2)])
    both = database.trace_ids()
    for table in canonical_tables().values():
        wanted = [(column.name, column.type) for column in table.columns]
        assert columns(database.relation(table.name, both)) == wanted
        # the id of one trace is a constant
        wanted[0] = ("trace_id", f"ENUM('{both[0]}')")
        assert columns(database.relation(table.name, both[:1])) == wanted


def columns(relation: str) -> list[tuple[str, str]]:
    return [row[:2] for row in duckdb.execute(f"DESCRIBE {relation}").fetchall()]


@pytest.mark.slow
def test_the_same_file_twice_is_one_trace(database: Database, tmp_path: Path) -> None:
    path = profile(tmp_path / "a.sqlite")
    first, second = database.ingest([path, path])
    before = everything(tmp_path)
    times = {p: p.stat().st_mtime_ns for p in database.traces_directory.rglob("*.parquet")}
    [third] = database.ingest([path])
    assert [r.status for r in (first, second, third)] == [
        "ingested",
        "already there",
        "already there",
    ]
    assert len({r.trace_id for r in (first, second, third)}) == len(database.trace_ids()) == 1
    assert everything(tmp_path) == before
    assert times == {p: p.stat().st_mtime_ns for p in times}


@pytest.mark.slow
def test_the_same_content_by_another_name_is_the_same_trace(
    database: Database, tmp_path: Path
) -> None:
    path = profile(tmp_path / "a.sqlite")
    [first] = database.ingest([path])
    [second] = database.ingest([Path(shutil.copy(path, tmp_path / "b.sqlite"))])
    assert (second.trace_id, second.name, second.status) == (
        first.trace_id,
        "a.sqlite",
        "already there",
    )


@pytest.mark.slow
def test_ingesting_again_gives_the_same_rows(tmp_path: Path) -> None:
    found = []
    for name in ("one", "other"):
        made = Database(tmp_path / f"{name}.duckdb")
        made.ingest([SAMPLE])
        selects = {
            t: made.relation(t, made.trace_ids()) for t in canonical_tables() if t != "trace"
        }
        found.append(
            {t: duckdb.execute(f"FROM ({s}) ORDER BY ALL").fetchall() for t, s in selects.items()}
        )
    assert found[0] == found[1]
    assert found[0]["kernel"]


@pytest.mark.slow
def test_earlier_files_stay_when_a_later_one_is_bad(database: Database, tmp_path: Path) -> None:
    bad = tmp_path / "bad.txt"
    bad.write_text("no profile")
    with pytest.raises(InputError, match=r"bad\.txt"):
        database.ingest([profile(tmp_path / "a.sqlite"), bad])
    assert len(database.trace_ids()) == 1
    assert in_a_shell(database.path, "SELECT count(*) FROM kernel") == [(1,)]


@pytest.mark.parametrize("wrong", ["missing.sqlite", "."])
def test_what_cannot_be_ingested_leaves_nothing(
    database: Database, tmp_path: Path, wrong: str
) -> None:
    with pytest.raises(InputError) as raised:
        database.ingest([tmp_path / wrong])
    assert "\n" not in str(raised.value)
    assert everything(tmp_path) <= {"db"}
    assert not database.exists()


# interruptions


class Breaking:
    """A source whose reader fails at one table."""

    format = "breaking"

    def __init__(self, table: str, error: BaseException) -> None:
        self._table, self._error = table, error

    def detect(self, path: Path, head: bytes) -> bool:
        return True

    def open(self, path: Path) -> Self:
        return self

    def describe(self, *, whole: bool = True) -> TraceDescription:
        return TraceDescription(tool="nsys", kind="timeline")

    def relation(self, connection: duckdb.DuckDBPyConnection, table: str) -> str | None:
        if table == self._table:
            raise self._error
        return "SELECT 1 AS kernel_id, 'k' AS name FROM range(5)" if table == "kernel" else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "error"),
    [
        ("api_call", InputError("row 7 is damaged")),
        ("thread", RuntimeError("a bug")),
        ("kernel", KeyboardInterrupt()),
    ],
)
def test_a_source_that_fails_half_way_leaves_nothing(
    database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    table: str,
    error: BaseException,
) -> None:
    database.ingest([profile(tmp_path / "good.sqlite")])
    path = profile(tmp_path / "bad.sqlite", kernels=2)
    before = everything(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(registry, "identify", lambda _path: Breaking(table, error))
        with pytest.raises(type(error)):
            database.ingest([path])
    assert everything(tmp_path) == before
    assert kernels(database) == 1
    [report] = database.ingest([path])
    assert report.status == "ingested"
    assert kernels(database) == 3


SLOW = """
import sys, time
from pathlib import Path
from tbd_trace.store import Database
def progress(text):
    if text.endswith("thread"):
        print("half way", flush=True)
        time.sleep(60)
Database(Path(sys.argv[1])).ingest([Path(sys.argv[2])], progress)
"""


def python(code: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "how", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.nightly)]
)
def test_a_killed_ingest_is_as_if_it_never_was(
    database: Database, tmp_path: Path, how: signal.Signals
) -> None:
    database.ingest([profile(tmp_path / "first.sqlite")])
    path = profile(tmp_path / "second.sqlite", kernels=2)
    with python(SLOW, database.path, path) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "half way\n"
        process.send_signal(how)
        process.communicate()
    assert process.returncode != 0
    assert len(database.trace_ids()) == 1
    assert kernels(database) == 1
    assert in_a_shell(database.path, "SELECT count(*) FROM kernel") == [(1,)]
    [report] = database.ingest([path])
    assert report.status == "ingested"
    assert kernels(database) == 3


@pytest.mark.slow
def test_what_a_killed_ingest_left_is_cleared_away_after_a_day(
    database: Database, tmp_path: Path
) -> None:
    database.ingest([profile(tmp_path / "a.sqlite")])
    old, young = (database.traces_directory / f".0123456789ab-{n}" for n in ("old", "young"))
    for directory in (old, young):
        directory.mkdir()
        (directory / "kernel.parquet").write_bytes(b"half written")
    two_days_ago = time.time() - 2 * 86_400
    os.utime(old, (two_days_ago, two_days_ago))
    assert in_a_shell(database.path, "SELECT count(*) FROM kernel") == [(1,)]
    database.ingest([profile(tmp_path / "b.sqlite", kernels=2)])
    assert not old.exists()
    assert young.exists()
    assert len(database.trace_ids()) == 2
    assert in_a_shell(database.path, "SELECT count(*) FROM kernel") == [(3,)]


# several processes

INGEST = """
import sys
from pathlib import Path
from tbd_trace.store import Database
reports = Database(Path(sys.argv[1])).ingest([Path(name) for name in sys.argv[2:]])
print(*[report.status for report in reports], sep=",")
"""


@pytest.mark.slow
def test_processes_ingesting_at_once_lose_nothing(database: Database, tmp_path: Path) -> None:
    """Three processes, each with a file of its own and one that all of them have."""
    shared = profile(tmp_path / "shared.sqlite", kernels=10)
    own = [profile(tmp_path / f"own{n}.sqlite", kernels=n + 1) for n in range(3)]
    processes = [python(INGEST, database.path, shared, path) for path in own]
    printed = []
    for process in processes:
        out, errors = process.communicate()
        assert process.returncode == 0, errors
        printed.append(out.strip().split(","))
    assert {statuses[1] for statuses in printed} == {"ingested"}
    assert [statuses[0] for statuses in printed].count("ingested") == 1
    assert len(database.trace_ids()) == 4
    assert kernels(database) == 10 + 1 + 2 + 3
    assert in_a_shell(database.path, "SELECT count(*) FROM kernel") == [(16,)]
    assert not list(database.traces_directory.glob(".[0-9a-f]*"))


@pytest.mark.slow
def test_a_shell_that_holds_the_file_is_in_nobody_s_way(database: Database, tmp_path: Path) -> None:
    database.ingest([profile(tmp_path / "a.sqlite")])
    code = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('open', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(database.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as shell:
        assert shell.stdout is not None
        assert shell.stdout.readline() == "open\n"
        [report] = database.ingest([profile(tmp_path / "b.sqlite", kernels=2)])
        assert report.status == "ingested"
        assert kernels(database) == 3
        shell.communicate("\n")
    assert in_a_shell(database.path, "SELECT count(*) FROM kernel") == [(3,)]


# names

NAMES = [
    "it's",
    'dou"ble',
    "sp ace  ünï 日本",
    "a[b]c*?",
    "brace{x,y}",
    "key=value",
    "-dash",
    "~tilde %20 #$x; -- comment",
    "back\\slash",
    "new\nline",
    "x.y.z",
]
PLACES = ["it's ünï[*?]", '"; -- {x,y}', "key=value #~%20$x.y", "-dash", "new\nline"]


@pytest.mark.slow
def test_names_of_files(database: Database, tmp_path: Path) -> None:
    paths = [
        profile(tmp_path / f"{name}.sqlite", kernels=number + 1)
        for number, name in enumerate(NAMES)
    ]
    reports = database.ingest(paths)
    assert [report.name for report in reports] == [path.name for path in paths]
    for path, report in zip(paths, reports, strict=True):
        assert database.resolve([path.name]) == [report.trace_id]
    assert database.traces()["path"].to_list() == [str(path) for path in paths]
    assert kernels(database) == sum(range(1, len(NAMES) + 1))


@pytest.mark.slow
@pytest.mark.parametrize("name", one_in(5, PLACES, then_one_in=2))
def test_names_of_databases(tmp_path: Path, name: str) -> None:
    directory = tmp_path / name
    directory.mkdir()
    made = Database(directory / f"{name}.duckdb")
    [report] = made.ingest([profile(directory / f"{name}.sqlite", kernels=2)])
    assert kernels(made) == 2
    assert in_a_shell(made.path, "SELECT count(*), any_value(name) FROM kernel") == [
        (2, made_nsys.STRINGS[1])
    ]
    assert made.resolve([f"{name}.sqlite"]) == [report.trace_id]


@pytest.mark.slow
@pytest.mark.skipif(os.sep == "\\", reason="there it separates names")
def test_backslashes_are_for_files_not_for_databases(database: Database, tmp_path: Path) -> None:
    directory = tmp_path / "back\\slash"
    directory.mkdir()
    path = profile(directory / "a\\b.sqlite")
    assert database.ingest([path])[0].name == "a\\b.sqlite"
    with pytest.raises(UsageError, match="backslash"):
        Database(directory / "made.duckdb")
    assert list(directory.iterdir()) == [path]


@pytest.mark.slow
def test_relative_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    profile(Path("a.sqlite"))
    made = Database(Path("made.duckdb"))
    made.ingest([Path("a.sqlite")])
    assert kernels(made) == 1
    monkeypatch.chdir("/")
    assert in_a_shell(tmp_path / "made.duckdb", "SELECT count(*) FROM kernel") == [(1,)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("one", "other"),
    one_in(3, [("run.1", "run.2"), ("a.duckdb", "a.db"), ("a.b.duckdb", "a.c.duckdb")]),
)
def test_databases_beside_each_other_share_nothing(tmp_path: Path, one: str, other: str) -> None:
    first, second = Database(tmp_path / one), Database(tmp_path / other)
    first.ingest([profile(tmp_path / "a.sqlite")])
    assert not second.exists()
    second.ingest([profile(tmp_path / "b.sqlite", kernels=2)])
    assert (kernels(first), kernels(second)) == (1, 2)


@pytest.mark.slow
def test_a_copied_database_answers_without_the_original(database: Database, tmp_path: Path) -> None:
    database.ingest([profile(tmp_path / "a.sqlite")])
    shutil.move(database.path.parent, tmp_path / "moved")
    moved = Database(tmp_path / "moved" / database.path.name)
    assert kernels(moved) == 1
    moved.ingest([profile(tmp_path / "b.sqlite", kernels=2)])  # renews the views
    assert in_a_shell(moved.path, "SELECT count(*) FROM kernel") == [(3,)]


# places that do not work


@pytest.mark.parametrize("content", [b"", b"no database", b"SQLite format 3\0" + bytes(100)])
def test_a_database_that_is_another_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    profile_path = profile(tmp_path / "a.sqlite")
    with pytest.raises(StoreError, match="--db") as raised:
        Database(path).ingest([profile_path])
    assert "\n" not in str(raised.value)
    assert path.read_bytes() == content
    assert everything(tmp_path) == {"notes.txt", "a.sqlite"}


@pytest.mark.parametrize("name", ["", ".", "..", "/"])
def test_a_database_without_a_name(name: str) -> None:
    with pytest.raises(TbdTraceError) as raised:
        Database(Path(name)).ingest([])
    assert isinstance(raised.value, StoreError | UsageError)


def test_a_database_below_a_file(tmp_path: Path) -> None:
    path = profile(tmp_path / "a.sqlite")
    with pytest.raises(StoreError):
        Database(path / "db.duckdb").ingest([path])
    assert everything(tmp_path) == {"a.sqlite"}


@pytest.mark.slow
def test_a_damaged_database_is_one_clear_error(database: Database, tmp_path: Path) -> None:
    [report] = database.ingest([profile(tmp_path / "a.sqlite")])
    (database.traces_directory / report.trace_id / "kernel.parquet").write_bytes(b"PAR1 damaged")
    with pytest.raises(StoreError, match=report.trace_id) as raised:
        kernels(database)
    assert "\n" not in str(raised.value)


# selecting and removing


@pytest.mark.slow
def test_resolving(database: Database, tmp_path: Path) -> None:
    paths = [tmp_path / name / "same.sqlite" for name in ("a", "b")]
    for number, path in enumerate(paths):
        path.parent.mkdir()
        profile(path, kernels=number + 1)
    only = profile(tmp_path / "only.sqlite", kernels=3)
    ids = [report.trace_id for report in database.ingest([*paths, only])]
    assert database.resolve([]) == ids
    assert database.resolve([ids[2], "only.sqlite", ids[2][:6]]) == [ids[2]]
    assert database.resolve([ids[1], ids[0]]) == [ids[1], ids[0]]
    with pytest.raises(UsageError, match="ambiguous") as raised:
        database.resolve(["same.sqlite"])
    assert ids[0] in str(raised.value)
    assert ids[1] in str(raised.value)
    with pytest.raises(UsageError, match=r"only\.sqlite"):
        database.resolve(["only.sqlit"])
    for wrong in ("", ids[2][:3], "nothing"):
        with pytest.raises(UsageError):
            database.resolve([wrong])


@pytest.mark.slow
def test_an_ambiguous_prefix(database: Database, tmp_path: Path) -> None:
    [report] = database.ingest([profile(tmp_path / "a.sqlite")])
    other = report.trace_id[:4] + "0" * 8
    shutil.copytree(database.traces_directory / report.trace_id, database.traces_directory / other)
    with duckdb.connect() as connection:
        file = database.traces_directory / other / "trace.parquet"
        connection.execute(
            f"COPY (SELECT * REPLACE ('{other}' AS trace_id) FROM '{file}') "
            f"TO '{file}.new' (FORMAT parquet)"
        )
        Path(f"{file}.new").rename(file)
    (file.parent / "checksums.json").unlink()
    assert database.resolve([other]) == [other]
    with pytest.raises(UsageError, match="ambiguous"):
        database.resolve([other[:4]])


@pytest.mark.slow
def test_an_ingest_without_views_leaves_the_earlier_traces(
    database: Database, tmp_path: Path
) -> None:
    """The shell's file cannot be written: the new trace is withdrawn, and can be ingested later."""
    database.ingest([profile(tmp_path / "a.sqlite")])
    database.path.write_bytes(b"12345678DUCK" + bytes(100))
    views_marker(database).unlink()  # the views are to be renewed
    before = everything(database.traces_directory)
    other = profile(tmp_path / "b.sqlite", kernels=2)
    with pytest.raises(StoreError, match="views cannot be written"):
        Database(database.path).ingest([other])
    assert everything(database.traces_directory) == before
    database.path.unlink()
    assert [report.status for report in Database(database.path).ingest([other])] == ["ingested"]


@pytest.mark.slow
@pytest.mark.parametrize("step", ["same_events", "write_views"])
def test_an_interrupt_behind_the_tables_leaves_nothing(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    made = profile(tmp_path / "a.sqlite")
    monkeypatch.setattr(f"tbd_trace.store.database.{step}", interrupt)
    with pytest.raises(KeyboardInterrupt):
        database.ingest([made])
    assert database.trace_ids() == []
    assert not database.traces_directory.parent.exists()
    monkeypatch.undo()
    assert [report.status for report in database.ingest([made])] == ["ingested"]


@pytest.mark.slow
def test_removing(database: Database, tmp_path: Path) -> None:
    paths = [profile(tmp_path / f"{n}.sqlite", kernels=n) for n in (1, 2)]
    reports = database.ingest(paths)
    with pytest.raises(UsageError):
        database.remove(["1.sqlite", "nothing"])
    assert len(database.trace_ids()) == 2
    with pytest.raises(UsageError):
        database.remove([])
    assert database.remove(["1.sqlite"]) == [reports[0].trace_id]
    assert database.trace_ids() == [reports[1].trace_id]
    assert in_a_shell(database.path, "SELECT count(*) FROM kernel") == [(2,)]
    assert [r.status for r in database.ingest(paths)] == ["ingested", "already there"]


@pytest.mark.slow
def test_removing_the_last_trace_leaves_views_that_work(database: Database, tmp_path: Path) -> None:
    path = profile(tmp_path / "a.sqlite")
    database.ingest([path])
    database.remove(["a.sqlite"])
    assert database.trace_ids() == []
    assert in_a_shell(database.path, "SELECT count(*) FROM kernel") == [(0,)]
    database.ingest([path])
    assert in_a_shell(database.path, "SELECT count(*) FROM kernel") == [(1,)]


# the .duckdb file


@pytest.mark.slow
def test_the_file_is_a_database_of_its_own(database: Database, tmp_path: Path) -> None:
    """Views, comments, data tables; and what a user keeps beside them survives."""
    database.ingest([SAMPLE])
    views = in_a_shell(
        database.path, "SELECT view_name, comment FROM duckdb_views() WHERE NOT internal"
    )
    documented = {table.name: table.doc for table in canonical_tables().values()}
    derived = {each.name: each.title for each in derive_relations() if each.view}
    assert derived.keys() >= {"nvtx_range", "nvtx_mark"}
    assert dict(views) == documented | derived
    assert in_a_shell(database.path, "SELECT count(*) > 5 FROM gpu_products") == [(True,)]
    with duckdb.connect(str(database.path), read_only=True) as shell:
        for table in canonical_tables():
            expected = duckdb.execute(
                f"SELECT count(*) FROM ({database.relation(table, database.trace_ids())})"
            ).fetchall()
            assert shell.execute(f"SELECT count(*) FROM {table}").fetchall() == expected
    with duckdb.connect(str(database.path)) as connection:
        connection.execute("CREATE TABLE mine AS SELECT 42 AS n")
    database.ingest([profile(tmp_path / "a.sqlite")])
    assert in_a_shell(database.path, "SELECT n FROM mine") == [(42,)]


# captures


@pytest.fixture
def capture(tmp_path: Path) -> Callable[..., Path]:
    """Return a maker of capture directories with one profile."""

    def make(document: object, layers: object = None, name: str = "capture") -> Path:
        directory = tmp_path / name
        directory.mkdir(exist_ok=True)
        if not (directory / "timeline.sqlite").exists():
            profile(directory / "timeline.sqlite")
            profile(tmp_path / "outside.sqlite", kernels=9)
        text = document if isinstance(document, str) else json.dumps(document)
        (directory / "capture.json").write_text(text)
        if layers is not None:
            (directory / "layers.json").write_text(json.dumps(layers))
        return directory

    return make


@pytest.mark.slow
def test_a_capture_carries_its_metadata(database: Database, capture: Callable[..., Path]) -> None:
    layers = {"layers": [{"name": "a__b", "type": "Conv2d", "parameters": 3}, {"name": "fc"}]}
    directory = capture({"capture_id": "run 7", "model": "cnn", "batch_size": 32}, layers)
    [report] = database.ingest([directory])
    assert report.name == "capture/timeline.sqlite"
    [row] = database.traces().to_dicts()
    assert (row["capture_id"], row["batch_size"]) == ("run 7", 32)
    assert json.loads(row["capture"])["model"] == "cnn"
    rows = in_a_shell(
        database.path,
        "SELECT layer, position, layer_type, parameters FROM layer_definition ORDER BY 2",
    )
    assert rows == [("a__b", 0, "Conv2d", 3), ("fc", 1, None, None)]


@pytest.mark.slow
def test_changed_metadata_makes_another_trace(
    database: Database, capture: Callable[..., Path]
) -> None:
    ids = [database.ingest([capture({"batch_size": size})])[0].trace_id for size in (16, 32, 32)]
    assert ids[0] != ids[1] == ids[2]


SECRET = "hunter2-not-for-anyone"


@pytest.mark.slow
def test_metadata_is_copied_by_name_never_as_a_whole(
    database: Database, capture: Callable[..., Path]
) -> None:
    """Neither unknown fields nor environments, at whatever depth, reach the database."""
    leak = {"environment": {"TOKEN": SECRET}, "env": SECRET, "secret": SECRET}
    document = {
        **leak,
        "host": SECRET,
        "command": ["train", f"--token={SECRET}"],
        "model": "cnn",
        "batch_size": 8,
        "files": [{"file": "timeline.sqlite", "tool": "nsys", "command": SECRET, **leak}],
        "throughput": {"samples_per_second": 5.0, **leak},
        "iteration_window": {"first": 1, "last": 9, **leak},
    }
    database.ingest([capture(document)])
    [row] = database.traces().to_dicts()
    kept = json.loads(row["capture"])
    assert (kept["model"], kept["throughput"]) == ("cnn", {"samples_per_second": 5.0})
    assert kept["iteration_window"] == {"first": 1, "last": 9}
    assert kept["files"] == [{"file": "timeline.sqlite", "tool": "nsys"}]
    for file in database.path.parent.rglob("*"):
        assert not file.is_file() or SECRET.encode() not in file.read_bytes()
    with duckdb.connect() as connection:  # Parquet is compressed: look at the values, too
        for table in canonical_tables():
            rows = connection.execute(database.relation(table, database.trace_ids())).fetchall()
            assert SECRET not in repr(rows)


@pytest.mark.parametrize(
    "name",
    ["../outside.sqlite", "/etc/hostname", "link.sqlite", "missing.sqlite", "", None, ".", 7],
)
def test_files_outside_the_capture_are_refused(
    database: Database, capture: Callable[..., Path], tmp_path: Path, name: object
) -> None:
    directory = capture({"files": [{"file": name}]})
    (directory / "link.sqlite").symlink_to(tmp_path / "outside.sqlite")
    with pytest.raises(InputError, match=r"capture\.json"):
        database.ingest([directory])
    assert database.trace_ids() == []


@pytest.mark.parametrize(
    ("document", "layers"),
    [
        ("{not json", None),
        ("[]", None),
        ("", None),
        ({}, []),
        ({}, {"layers": {}}),
        ({}, {"layers": ["conv"]}),
        ({}, {"layers": [{"type": "Conv2d"}]}),
        ({}, {"layers": [{"name": 7}]}),
        ({}, {"layers": [{"name": "a", "parameters": "many"}]}),
        ({}, {"layers": [{"name": "a", "forward_flop": [1]}]}),
    ],
)
def test_metadata_that_cannot_be_understood(
    database: Database, capture: Callable[..., Path], document: object, layers: object
) -> None:
    with pytest.raises(InputError, match=r"capture\.json|layers\.json") as raised:
        database.ingest([capture(document, layers)])
    assert "\n" not in str(raised.value)
    assert database.trace_ids() == []


@pytest.mark.parametrize("batch_size", ["32", 3.5, True, [32], 0, -1])
def test_a_batch_size_is_a_number_of_samples_or_unknown(
    capture: Callable[..., Path], batch_size: object
) -> None:
    [known] = capture_files(capture({"batch_size": 32}))
    [unknown] = capture_files(capture({"batch_size": None}))
    assert (known.batch_size, unknown.batch_size) == (32, None)
    with pytest.raises(InputError, match="batch_size"):
        capture_files(capture({"batch_size": batch_size}))


def test_a_capture_without_profiles(database: Database, tmp_path: Path) -> None:
    (tmp_path / "capture.json").write_text("{}")
    with pytest.raises(InputError, match="without profiler files"):
        database.ingest([tmp_path])


@pytest.mark.slow
def test_a_capture_without_a_list_holds_every_file_beside(
    database: Database, capture: Callable[..., Path]
) -> None:
    directory = capture({"capture_id": None})
    profile(directory / "second.sqlite", kernels=2)
    reports = database.ingest([directory])
    assert [report.name for report in reports] == [
        "capture/second.sqlite",
        "capture/timeline.sqlite",
    ]
    assert len(set(database.traces()["capture_id"])) == 1
    assert database.traces()["capture_id"][0]


@pytest.mark.slow
def test_a_trace_removed_while_names_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(tmp_path / "x.duckdb")
    tables = {made_nsys.KERNEL: [made_nsys.kernel()], "StringIds": made_nsys.strings()}
    database.ingest([made_nsys.write(tmp_path / "a.sqlite", tables)])
    (kept,) = database.trace_ids()
    # The first list was made before another process removed a trace.
    lists = iter([["0123456789ab", kept]])
    present = database.trace_ids
    monkeypatch.setattr(database, "trace_ids", lambda: next(lists, None) or present())
    assert database.resolve(["a.sqlite"]) == [kept]
    monkeypatch.setattr(database, "trace_ids", lambda: ["0123456789ab", kept])
    with pytest.raises(StoreError, match="was removed while it was read"):
        database.resolve(["a.sqlite"])


def test_a_derived_relation_removed_before_it_is_read(tmp_path: Path) -> None:
    gone = tmp_path / "x.traces" / "derived" / "window_op-7a91.parquet"
    with (
        duckdb.connect() as connection,
        pytest.raises(StoreError, match="removed traces during this query; ask again"),
        reading(Database(tmp_path / "x.duckdb")),
    ):
        connection.execute(f"FROM read_parquet('{gone}')")


def test_a_derived_relation_removed_before_it_is_opened(tmp_path: Path) -> None:
    gone = tmp_path / "x.traces" / "derived" / "window_op-7a91.parquet"
    # As DuckDB says it when the file is removed after it was found.
    message = f'IO Error: Cannot open file "{gone}": No such file or directory'
    with (
        pytest.raises(StoreError, match="removed traces during this query; ask again"),
        reading(Database(tmp_path / "x.duckdb")),
    ):
        raise duckdb.IOException(message)
    with pytest.raises(duckdb.IOException), reading(Database(tmp_path / "x.duckdb")):
        raise duckdb.IOException(message.replace("derived", "other"))
