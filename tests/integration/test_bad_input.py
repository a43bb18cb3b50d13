"""Everything that can be wrong with what a user gives: one clear line, and nothing is harmed."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from fast import one_in
from program import (
    METRICS,
    SAMPLE,
    TIMELINE,
    Outcome,
    changed,
    complaint,
    invoke,
    rows,
    run,
    run_powerless,
    start,
    state,
)
from tbd_trace.query import Catalogue

PAGE = 4096
KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 84977953\n"
REPORT = b"NVIDIA Tegra Profiler Report 1.\n" + bytes(4000)
Edit = Callable[[bytes], bytes]


@pytest.fixture(scope="session")
def sample_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "sample.duckdb"
    assert invoke("ingest", SAMPLE, "--db", path).code == 0
    return path


@pytest.fixture(autouse=True)
def elsewhere(elsewhere: Path) -> Path:
    """Run in an empty directory, with a cache of its own that is there already."""
    (elsewhere / "cache").mkdir()
    return elsewhere


@pytest.fixture
def db(sample_database: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TBD_TRACE_DB", str(sample_database))
    return sample_database


def refuse(*arguments: object, code: int = 1, how: Callable[..., Outcome] = invoke) -> str:
    """Run a command that must fail and change nothing; return its complaint."""
    before = state(Path.cwd())
    line = complaint(how(*arguments), code)
    assert state(Path.cwd()) == before
    return line


# -- files that are no profiles, or no longer ----------------------------------------------------


def overwritten(table: str, byte: int) -> Edit:
    """Return what overwrites the first page of a table of the sample."""
    with sqlite3.connect(f"file:{TIMELINE}?mode=ro", uri=True) as file:
        query = "SELECT rootpage FROM sqlite_master WHERE name = ?"
        begin = (file.execute(query, [table]).fetchone()[0] - 1) * PAGE
    return lambda data: data[:begin] + bytes([byte]) * PAGE + data[begin + PAGE :]


DAMAGE: dict[str, tuple[Edit, str]] = {
    "empty": (lambda _: b"", "empty file"),
    "a text": (lambda _: b"hello world\n", "unsupported file format; expected"),
    "zeros": (lambda data: bytes(len(data)), "only zeros"),
    "a Git LFS pointer": (lambda _: LFS, "run `git lfs pull`"),
    "gzip": (lambda _: b"\x1f\x8b\x08" + bytes(50), "unpack it first"),
    "an Nsight Compute report": (lambda _: b"NVR\x00" + bytes(50), "ncu --import FILE --csv"),
    "the header alone": (lambda data: data[:100], "100 of 159,744 bytes"),
    "the first half": (lambda data: data[: len(data) // 2], "79,872 of 159,744 bytes"),
    "without the last page": (lambda data: data[:-PAGE], "155,648 of 159,744 bytes"),
    "without the last byte": (lambda data: data[:-1], "159,743 of 159,744 bytes"),
    "zeros after the header": (lambda data: data[:100] + bytes(len(data) - 100), "damaged"),
    "noise": (lambda data: data[:16] + random.Random(1).randbytes(20_000), "damaged"),
    "no schema": (lambda data: data[:100] + b"\xff" * 3996 + data[PAGE:], "damaged"),
    "a page of kernels": (overwritten(KERNEL, 0xFF), "damaged"),
    "a page of texts": (overwritten("StringIds", 0xFF), "damaged"),
    "a page of ranges": (overwritten("NVTX_EVENTS", 0), "damaged"),
    "a page of facts": (overwritten("TARGET_INFO_GPU", 0), "damaged"),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_damaged_files(db: Path, what: str) -> None:
    edit, words = DAMAGE[what]
    path = changed(Path("report.sqlite"), edit)
    before = state(db.parent)
    line = refuse("ingest", path)
    assert line.startswith("error: report.sqlite: ")
    assert words in line
    assert state(db.parent) == before
    assert words in refuse("info", path)  # on the fly, into the cache


def altered(name: str, *statements: str) -> Path:
    """Return a copy of the sample's timeline after some SQL."""
    path = Path(shutil.copyfile(TIMELINE, name))
    with sqlite3.connect(path) as file:
        for statement in statements:
            file.execute(statement)
    file.close()
    return path


def tables() -> list[str]:
    with sqlite3.connect(f"file:{TIMELINE}?mode=ro", uri=True) as file:
        query = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
        return [name for (name,) in file.execute(query)]


def test_databases_that_are_no_profiles() -> None:
    with sqlite3.connect("other.sqlite") as file:
        file.execute("CREATE TABLE customers (name)")
    file.close()
    assert "not a known profile (tables: customers)" in refuse("ingest", "other.sqlite")
    unknown = altered(
        "unknown.sqlite",
        *(f'ALTER TABLE "{table}" RENAME TO "V9_{table}"' for table in tables()),
    )
    assert "V9_" in refuse("ingest", unknown)
    emptied = altered("emptied.sqlite", *(f'DROP TABLE "{table}"' for table in tables()))
    assert "without tables" in refuse("ingest", emptied)


@pytest.mark.slow
def test_an_export_whose_tables_have_new_names() -> None:
    """It ingests as far as it goes, and is not taken for a program without GPU work."""
    renamed = [table for table in tables() if table.startswith("CUPTI_ACTIVITY_KIND")]
    new = altered("new.sqlite", *(f"ALTER TABLE {name} RENAME TO {name}_V9" for name in renamed))
    outcome = invoke("ingest", new, "--db", "x.duckdb")
    assert outcome.code == 0
    words = f"GPU work may be in tables unknown to tbd-trace ({KERNEL}_V9, "
    assert outcome.err.startswith(f"note: new.sqlite: {words}")
    assert "update tbd-trace" in outcome.err
    line = refuse("query", "kernel_summary", "--db", "x.duckdb", code=3)
    assert "needs single kernels" in line


@pytest.mark.slow
def test_a_database_that_is_still_written(tmp_path: Path) -> None:
    """Changes that wait in a journal are neither lost silently nor applied to the evidence."""
    for journal, suffix in (("WAL", "-wal"), ("DELETE", "-journal")):
        path = altered(f"{journal}.sqlite")
        with sqlite3.connect(path, isolation_level=None) as writer:
            writer.execute(f"PRAGMA journal_mode = {journal}")
            writer.execute("PRAGMA cache_size = 1")
            writer.execute("BEGIN")
            writer.execute(f"UPDATE {KERNEL} SET start = 0")
            if journal == "WAL":
                writer.execute("COMMIT")
            line = refuse("ingest", path)
            assert f"still in {path.name}{suffix}" in line
        writer.close()
        outcome = invoke("ingest", path)
        assert outcome.code == 0, outcome
        left = {path.name for path in tmp_path.glob(f"{journal}*")}
        assert left == {path.name}


@pytest.mark.slow
def test_write_ahead_files_that_may_not_be_written(tmp_path: Path) -> None:
    """SQLite wants to write beside such a file, even to read it; a profile lies where it lies."""
    folder = tmp_path / "archive"
    folder.mkdir()
    path = altered("archive/wal.sqlite", "PRAGMA journal_mode = WAL")
    folder.chmod(0o555)
    outcome = run_powerless("ingest", path)
    folder.chmod(0o755)
    assert outcome.code == 0, outcome
    assert [entry.name for entry in folder.iterdir()] == ["wal.sqlite"]


@pytest.mark.slow
def test_a_file_that_changes_while_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path(shutil.copyfile(TIMELINE, "growing.sqlite"))
    from tbd_trace.store import identified_file

    hashed = identified_file.hash_file

    def then_written(read: Path) -> Any:
        content = hashed(read)
        os.utime(read, ns=(content.modified_ns, content.modified_ns + 1))
        return content

    monkeypatch.setattr(identified_file, "hash_file", then_written)
    line = complaint(invoke("ingest", path), 1)
    assert "changed while it was read" in line
    assert {entry.name for entry in Path.cwd().iterdir()} == {"growing.sqlite", "cache"}


def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo("pipe")
    Path("folder").mkdir()
    for what, words in {
        "pipe": "write the profile to a file first",
        "/dev/zero": "write the profile to a file first",
        "folder": "a directory without capture.json",
        "missing.sqlite": "no such file; check the path",
        "n" * 300: "File name too long",
    }.items():
        before = {entry.name for entry in tmp_path.iterdir()}
        assert words in complaint(invoke("ingest", what), 1)
        assert {entry.name for entry in tmp_path.iterdir()} == before


@pytest.mark.slow
def test_no_permission() -> None:
    secret = Path(shutil.copyfile(TIMELINE, "secret.sqlite"))
    secret.chmod(0)
    closed = Path("closed")
    shutil.copytree(SAMPLE, closed)
    closed.chmod(0)
    try:
        for path in (secret, closed):
            assert "ermission" in complaint(run_powerless("ingest", path), 1)
    finally:
        closed.chmod(0o755)


@pytest.mark.slow
def test_a_bad_file_does_not_stop_the_others() -> None:
    Path("bad.sqlite").write_bytes(b"")
    outcome = invoke("ingest", "bad.sqlite", TIMELINE, "missing.sqlite", METRICS)
    assert outcome.code == 1
    assert [line.split()[4] for line in outcome.out.splitlines()] == ["ingested", "ingested"]
    assert [line[:19] for line in outcome.err.splitlines()] == [
        "error: bad.sqlite: ",
        "error: missing.sqli",
    ]


# -- reports, which only nsys can read -----------------------------------------------------------


def test_a_report_without_nsys(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("r.nsys-rep").write_bytes(REPORT + b"2024.4.2.133-244234382004v0")
    monkeypatch.setenv("PATH", "/nowhere")
    line = refuse("ingest", "r.nsys-rep")
    assert "put nsys 2024.4.2.133 or newer on PATH" in line
    assert "nsys export --type sqlite" in line


@pytest.mark.needs("nsys")
def test_reports_that_nsys_cannot_read() -> None:
    Path("new.nsys-rep").write_bytes(REPORT + b"2099.1.1.1-244234382004v0")
    assert "install nsys 2099.1.1.1 or newer" in refuse("ingest", "new.nsys-rep")
    Path("damaged.nsys-rep").write_bytes(REPORT)
    assert "copy it again if it is damaged" in refuse("ingest", "damaged.nsys-rep")


# -- profiles that lack what a question needs ----------------------------------------------------

NEEDING_KERNELS = [
    *("fp16_util", "fp32_util", "kernel_durations", "low_util_kernels", "mfu"),
    *("nvtx_kernels", "occupancy", "occupancy_histogram", "tensor_util", "whatif", "why"),
]


def test_the_list_of_questions_about_kernels_is_complete() -> None:
    needing = [query.name for query in Catalogue().metrics() if "kernel" in query.needs]
    assert needing == NEEDING_KERNELS


@pytest.fixture(scope="module")
def without_kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("without")
    path = altered(str(folder / "idle.sqlite"), f"DROP TABLE {KERNEL}")
    outcome = invoke("ingest", path, "--db", folder / "x.duckdb")
    assert outcome.code == 0
    assert "0 kernels" in outcome.out
    assert outcome.err.startswith("note: idle.sqlite: no kernel was recorded")
    assert len(outcome.err.splitlines()) == 1
    return folder / "x.duckdb"


@pytest.mark.parametrize("name", [*NEEDING_KERNELS, "kernel_summary"])
def test_questions_about_kernels_where_there_are_none(without_kernels: Path, name: str) -> None:
    line = refuse("query", name, "--db", without_kernels, code=3)
    assert f"{name} needs" in line
    assert "; profile the part that computes" in line
    assert "tbd-trace why" not in line  # which needs kernels where there is a GPU


@pytest.fixture(scope="module")
def without_gpu(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cpu")
    activities = (KERNEL, "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET")
    path = altered(str(folder / "cpu.sqlite"), *(f"DROP TABLE {name}" for name in activities))
    assert invoke("ingest", path, "--db", folder / "x.duckdb").code == 0
    return folder / "x.duckdb"


@pytest.fixture(scope="module")
def why_of_a_cpu(without_gpu: Path) -> Outcome:
    return invoke("why", "--db", without_gpu)


@pytest.mark.slow
@pytest.mark.parametrize("name", one_in(4, [*NEEDING_KERNELS, "kernel_summary"]))
def test_questions_about_kernels_of_a_cpu_name_the_command_that_answers(
    without_gpu: Path, why_of_a_cpu: Outcome, name: str
) -> None:
    line = refuse("query", name, "--db", without_gpu, code=3)
    assert "; without a GPU, `tbd-trace why` answers" in line
    assert why_of_a_cpu.code == 0
    assert "input pipeline" in why_of_a_cpu.out


@pytest.fixture(scope="module")
def without_times(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("metrics") / "x.duckdb"
    assert invoke("ingest", METRICS, "--db", path).code == 0
    return path


ABOUT_TIME = [
    *("compute_util", "dominant_layer", "idle_causes", "iteration_summary", "iteration_timing"),
    *("layer_time", "memory_operations", "nvtx_gpu_time", "nvtx_kernels", "nvtx_projection"),
    *("nvtx_summary", "step_breakdown", "throughput"),
]


@pytest.mark.slow
@pytest.mark.parametrize("name", one_in(4, ABOUT_TIME))
def test_questions_about_time_where_there_are_only_counters(without_times: Path, name: str) -> None:
    line = refuse("query", name, "--db", without_times, code=3)
    assert f"{name} needs" in line
    assert "this is a metrics file of ncu" in line
    assert "nsys profile" in line


@pytest.mark.slow
def test_counters_answer_what_they_can(without_times: Path) -> None:
    asked = ("query", "fp32_util", "--db", without_times, "--format", "json")
    [row] = json.loads(invoke(*asked).out)
    assert row["busy_pct"] > 0
    assert row["elapsed_pct"] is None
    assert "elapsed time unknown" in row["reason"]
    occupancy = invoke("query", "occupancy", "--db", without_times, "--format", "json")
    assert all(row["achieved_pct"] > 0 for row in json.loads(occupancy.out))


@pytest.mark.slow
def test_notes_name_the_traces_that_cannot_answer(db: Path) -> None:
    shutil.copytree(db.parent, "both")
    Path("note.sqlite").write_bytes(altered("x.sqlite", f"DROP TABLE {KERNEL}").read_bytes())
    mixed = Path("both") / db.name
    assert invoke("ingest", "note.sqlite", "--db", mixed).code == 0
    outcome = invoke("query", "occupancy", "--db", mixed, "--format", "csv")
    assert rows(outcome)
    assert "note: note.sqlite: occupancy needs single kernels" in outcome.err


# -- captures ------------------------------------------------------------------------------------


@pytest.fixture
def capture() -> Path:
    return Path(shutil.copytree(SAMPLE, "capture"))


def set_fields(capture: Path, **fields: object) -> None:
    path = capture / "capture.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


@pytest.mark.parametrize("name", ["capture.json", "layers.json"])
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not readable as JSON"),
        (b'{"format_version": 1,', "not readable as JSON"),
        (b"\xff\xfe{}", "not readable as JSON"),
        (b'{"\\ud800": 1}', "not readable as JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[]", "expected a JSON object"),
    ],
)
def test_metadata_that_is_no_json(capture: Path, name: str, content: bytes, words: str) -> None:
    (capture / name).write_bytes(content)
    line = refuse("ingest", capture)
    assert line.startswith(f"error: capture/{name}: {words}")


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ([{"file": "../timeline.sqlite"}], "'../timeline.sqlite', outside the capture"),
        ([{"file": str(TIMELINE)}], "outside the capture"),
        ([{"file": "timeline.sqlite/../../x"}], "outside the capture"),
        ([{"file": "gone.sqlite"}], "'gone.sqlite', which is missing"),
        ([{"file": "."}], "which is missing"),
        ([{"file": "a\0b"}], "name a file in the directory"),
        ([{"role": "timeline"}], "names None"),
        ("timeline.sqlite", "no list"),
        ([{"file": "layers.json"}], "unsupported file format"),
    ],
)
def test_files_that_a_capture_must_not_name(capture: Path, files: object, words: str) -> None:
    Path("timeline.sqlite").write_bytes(TIMELINE.read_bytes())
    set_fields(capture, files=files)
    assert words in refuse("ingest", capture)


def test_a_capture_without_profiles(capture: Path) -> None:
    for name in ("timeline.sqlite", "metrics.csv"):
        (capture / name).unlink()
    set_fields(capture, files=[])
    assert "without profiler files" in refuse("ingest", capture)
    (capture / "capture.json").unlink()
    assert "a directory without capture.json" in refuse("ingest", capture)


@pytest.mark.parametrize("value", ["64", -1, 0, 6.4, True, 2**53 + 1, 10**30])
def test_a_batch_size_that_is_none(capture: Path, value: object) -> None:
    set_fields(capture, batch_size=value)
    assert f"batch_size is {value!r}" in refuse("ingest", capture)


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        (3, "expected a list `layers`"),
        (["conv1"], "expected a list `layers`"),
        ([{"type": "Conv2d"}], "layer 1 has no `name`"),
        ([{"name": "a"}, {"name": "a"}], "two layers are called 'a'"),
        ([{"name": "a", "parameters": "many"}], "parameters of layer 'a' is 'many'"),
        ([{"name": "a", "weight_bytes": -4}], "weight_bytes of layer 'a' is -4"),
        ([{"name": "a", "gradient_bytes": 2**63}], "gradient_bytes of layer 'a' is"),
        ([{"name": "a", "forward_flop": float("nan")}], "forward_flop of layer 'a' is nan"),
        ([{"name": "a", "backward_flop": True}], "backward_flop of layer 'a' is True"),
        ([{"name": "a", "type": 3}], "type of layer 'a' is 3"),
    ],
)
def test_layers_of_another_shape(capture: Path, layers: object, words: str) -> None:
    (capture / "layers.json").write_text(json.dumps({"layers": layers}))
    line = refuse("ingest", capture)
    assert line.startswith("error: capture/layers.json: ")
    assert words in line


# -- places --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_databases_in_impossible_places(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("folder.duckdb").mkdir()
    Path("notes.duckdb").write_text("my notes")
    Path("damaged.duckdb").write_bytes(b"12345678DUCK" + bytes(100))
    Path("file").write_text("")
    for name, words in {
        "folder.duckdb": "is not a DuckDB database; choose another --db",
        "notes.duckdb": "is not a DuckDB database; choose another --db",
        "file/x.duckdb": "Not a directory",
        f"{'n' * 300}.duckdb": "File name too long",
    }.items():
        assert words in refuse("ingest", TIMELINE, "--db", name)
    line = complaint(invoke("ingest", TIMELINE, "--db", "damaged.duckdb"), 1)
    assert "damaged.duckdb: its views cannot be written" in line
    assert Path("damaged.duckdb").read_bytes() == b"12345678DUCK" + bytes(100)
    assert not Path("damaged.traces").exists()
    for name in ("", ".", ".."):
        assert "name a file" in refuse("ingest", TIMELINE, "--db", name, code=2)
    monkeypatch.setenv("TBD_TRACE_DB", "notes.duckdb")
    assert "is not a database of traces" in refuse("info", code=2)


def test_databases_that_are_not_there(db: Path) -> None:
    assert "there is no database none.duckdb" in refuse("info", "--db", "none.duckdb", code=2)
    Path("old.traces/v0/0123456789ab").mkdir(parents=True)
    assert "layout v0, this one reads v2" in refuse("info", "--db", "old.duckdb", code=2)
    shutil.copyfile(db, "lonely.duckdb")
    line = refuse("query", "trace_info", "--db", "lonely.duckdb", code=2)
    assert "lonely.traces/v2 belongs beside it" in line


@pytest.mark.slow
def test_a_missing_directory_is_made() -> None:
    assert invoke("ingest", METRICS, "--db", "some/where/x.duckdb").code == 0
    assert duckdb.connect("some/where/x.duckdb", read_only=True).sql("FROM trace").fetchall()


def test_a_failed_first_ingest_makes_no_database() -> None:
    Path("bad.sqlite").write_bytes(b"SQLite format 3\0")
    refuse("ingest", "bad.sqlite")
    assert "there is no database" in refuse("info", code=2)


@pytest.mark.slow
def test_a_directory_that_may_not_be_written(db: Path, tmp_path: Path) -> None:
    shutil.copytree(db.parent, "shared")
    for path in (tmp_path / "shared").rglob("*"):
        path.chmod(0o555 if path.is_dir() else 0o444)
    Path("shared").chmod(0o555)
    shared = Path("shared") / db.name
    try:
        for database in (shared, Path("shared/new.duckdb")):
            line = complaint(run_powerless("ingest", METRICS, "--db", database), 1)
            assert "cannot be written (Permission denied); choose another place with --db" in line
        outcome = run_powerless("query", "kernel_summary", "--db", shared, "--format", "csv")
        assert rows(outcome)
        again = run_powerless("ingest", SAMPLE, "--db", shared)
        assert again.out.count("already there") == 2
    finally:
        for path in (tmp_path / "shared", *(tmp_path / "shared").rglob("*")):
            path.chmod(0o755)


def test_a_cache_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("file").write_text("")
    monkeypatch.setenv("TBD_TRACE_CACHE", "file/cache")
    assert "choose another place with TBD_TRACE_CACHE" in refuse("info", METRICS)
    monkeypatch.delenv("TBD_TRACE_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    assert "set TBD_TRACE_CACHE" in refuse("info", METRICS, code=2)


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["kernel.parquet", "trace.parquet", "no kernel.parquet"])
def test_a_damaged_trace_in_the_database(db: Path, damage: str) -> None:
    shutil.copytree(db.parent, "copy")
    copy = Path("copy") / db.name
    trace = rows(invoke("info", "--db", copy, "--format", "csv"))[0].split(",")[0]
    file = copy.with_suffix(".traces") / "v2" / trace / damage.removeprefix("no ")
    file.unlink() if damage.startswith("no ") else file.write_bytes(b"PAR1 no longer")
    for command in (["info"], ["query", "kernel_summary"], ["sql", "FROM kernel"]):
        line = refuse(*command, "--db", copy)
        assert f"{trace}: damaged (" in line
        assert "remove this directory and ingest the profile again" in line


NAMES = [
    'it\'s "quoted".sqlite',
    "sp ace  \u00fcn\u00ef \u65e5\u672c.sqlite",
    "a[1]b*?.sqlite",
    "key=value.sqlite",
    "new\nline \x1b[31m.sqlite",
    os.fsdecode(b"stray \xff byte.sqlite"),
]


@pytest.mark.slow
def test_names_of_files() -> None:
    """Every name is one line, and leads to the file's own trace."""
    for kernels, name in enumerate(NAMES, 1):
        altered(name, f"DELETE FROM {KERNEL} WHERE rowid > {kernels}")
    outcome = invoke("ingest", *NAMES)
    assert outcome.code == 0, outcome
    lines = outcome.out.splitlines()
    assert [int(line.split()[2]) for line in lines] == list(range(1, len(NAMES) + 1))
    assert "\x1b" not in outcome.out
    for number, name in enumerate(NAMES[:4], 1):
        asked = ("sql", "SELECT count(*) FROM kernel", "--trace", name, "--format", "csv")
        assert rows(invoke(*asked)) == [str(number)]


@pytest.mark.slow
def test_a_name_like_an_option() -> None:
    altered("-dash.sqlite", f"DELETE FROM {KERNEL} WHERE rowid > 7")
    assert "names that begin with - go after --" in refuse("ingest", "-dash.sqlite", code=2)
    assert "7 kernels" in run("ingest", "--", "-dash.sqlite").out


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["it's.duckdb", "x[1]*?.duckdb", "trace_id=7/name=x.duckdb", "new\nline", "-x", "r.1"]
)
def test_names_of_databases(name: str) -> None:
    option = f"--db={name}"
    assert invoke("ingest", METRICS, option).code == 0
    statement = "SELECT t.name, count(*) FROM kernel JOIN trace AS t USING (trace_id) GROUP BY 1"
    assert rows(invoke("sql", statement, option, "--format", "csv")) == ["metrics.csv,25"]
    with duckdb.connect(name, read_only=True) as shell:
        assert shell.sql("SELECT count(*) FROM kernel").fetchall() == [(25,)]


# -- requests ------------------------------------------------------------------------------------

WRONG_REQUESTS: list[tuple[list[str], str]] = [
    (["query", "fp32_utils"], "did you mean fp32_util"),
    (["query", "zzz"], "query --list"),
    (["query", "missing.sql"], "cannot be read as a query file"),
    (["query", "fp32_util", "--set", "bye=layer"], "no parameter 'bye' (parameters: by,"),
    (["query", "fp32_util", "--set", "by=moon"], "not among trace, iteration, layer, kernel"),
    (["query", "fp32_util", "--set", "by"], "expected NAME=VALUE"),
    (["query", "throughput", "--set", "batch_size=many"], "batch_size=many"),
    (["query", "throughput", "--set", f"batch_size={10**30}"], "expected an integer"),
    (["query", "iteration_timing", "--set", "min_confidence=nan"], "expected a number"),
    (["query", "iteration_timing", "--set", "iteration_pattern=("], "iteration_pattern=("),
    (["query", "fp32_util", "nope"], "`tbd-trace info` lists them"),
    (["query", "fp32_util", "n" * 300], "`tbd-trace info` lists them"),
    (["info", "synthetic_cnn"], "did you mean synthetic_cnn/"),
    (["query", "fp32_util", "--format", "xml"], "'xml' is not one of"),
    (["query", "fp32_util", "-o", "x.xyz"], "add --format"),
    (["query", "iteration_timing", "--plot", "x.bmp"], "a plot is written as .svg"),
    (["query", "trace_info", "--plot", "x.svg"], "trace_info has no plot"),
    (["info", "--limit", "-1"], "--limit"),
    (["info", "--nonsense"], "no such option: --nonsense"),
    (["frobnicate"], "no such command or file 'frobnicate'"),
    (["ingest"], "missing argument"),
    (["sql", ""], "no SQL statement given"),
    (["sql", "DELETE FROM kernel"], "only statements that read"),
    (["query"], "name a query"),
]


@pytest.mark.parametrize(
    ("request_", "words"), WRONG_REQUESTS, ids=[" ".join(asked)[:40] for asked, _ in WRONG_REQUESTS]
)
def test_wrong_requests(db: Path, request_: list[str], words: str) -> None:
    assert words in refuse(*request_, code=2)


@pytest.mark.slow
def test_ambiguous_names_and_short_prefixes(db: Path) -> None:
    ids = [row.split(",")[0] for row in rows(invoke("info", "--format", "csv"))]
    assert "give at least 4 digits" in refuse("info", ids[0][:3], code=2)
    for folder, kernels in (("a", 1), ("b", 2)):
        Path(folder).mkdir()
        path = altered(f"{folder}/same.sqlite", f"DELETE FROM {KERNEL} WHERE rowid > {kernels}")
        assert invoke("ingest", path, "--db", "x.duckdb").code == 0
    line = refuse("info", "same.sqlite", "--db", "x.duckdb", code=2)
    for row in rows(invoke("info", "--db", "x.duckdb", "--format", "csv")):
        assert row.split(",")[0] in line
    assert "is ambiguous: " in line
    assert "use a trace id" in line


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no SQL statement given"),
        ("-- nothing\n", "no SQL statement given"),
        ("COPY (SELECT 1) TO 'leak.csv'", "only statements that read"),
        ("/*\nneeds = ['no_such_table']\n*/ SELECT 1", "unknown table 'no_such_table'"),
        ("/*\nneeds = 3\n*/ SELECT 1", "invalid header"),
        ("/*\nparams = 3\n*/ SELECT 1", "invalid header"),
        ('/*\npartial = ["start_ns", 3]\n*/ SELECT 1', "invalid header"),
    ],
)
def test_query_files_that_cannot_be_asked(db: Path, text: str, words: str) -> None:
    Path("own.sql").write_text(text)
    assert words in refuse("query", "own.sql", code=2)


def test_errors_in_sql_point_at_the_place(db: Path) -> None:
    """The one kind of error with several lines."""
    outcome = invoke("sql", "SELECT 1\nFRM kernel x")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("error: SQL: Parser Error: ")
    assert set(outcome.err.splitlines()[-1]) == {" ", "^"}


@pytest.mark.slow
def test_input_that_is_no_text(db: Path) -> None:
    process = start("sql", "-", stdin=-1, encoding="latin-1")
    out, err = process.communicate("SELECT '\xff\xfe'")
    assert "not valid UTF-8" in complaint(Outcome(process.returncode, out, err), 2)


# -- answers that cannot be delivered ------------------------------------------------------------


@pytest.mark.slow
def test_a_failing_query_leaves_the_old_answer(db: Path) -> None:
    Path("answer.csv").write_text("the old answer")
    for request, code in (
        (["query", "nope"], 2),
        (["query", "fp32_util", "--set", "by=moon"], 2),
        (["query", "nvtx_kernels", "synthetic_cnn/metrics.csv"], 3),
    ):
        refuse(*request, "-o", "answer.csv", code=code)
    assert Path("answer.csv").read_text() == "the old answer"
    assert invoke("query", "trace_info", "-o", "answer.csv").err.endswith("wrote answer.csv\n")
    assert Path("answer.csv").read_text().startswith("trace_id,")


@pytest.mark.slow
def test_answers_to_impossible_places(db: Path) -> None:
    Path("folder").mkdir()
    for path, words in {
        "no/such/folder/x.csv": "No such file or directory",
        "folder": "Is a directory",
        f"{'n' * 300}": "File name too long",
    }.items():
        line = refuse("query", "trace_info", "--format", "csv", "-o", path)
        assert f"{path}: cannot be written ({words})" in line
    outcome = invoke("query", "iteration_timing", "--format", "csv", "--plot", "no/such/x.svg")
    assert outcome.code == 1
    assert "cannot be written" in outcome.err


@pytest.mark.slow
def test_streams_that_are_closed_or_full(db: Path) -> None:
    """Whether the answer goes to a pipe, a full disk or nowhere: no traceback, no wrong code."""
    with Path("/dev/full").open("w") as full:
        for request in (["--help"], ["query", "--list"]):
            outcome = run(*request, stdout=full)
            assert outcome.code == 1
            [line] = outcome.err.splitlines()
            assert line == "error: standard output cannot be written (No space left on device)"
    assert run("query", "--list", preexec_fn=lambda: os.close(1)).err == ""
    closed = run("query", "nope", preexec_fn=lambda: os.close(2))
    assert (closed.code, closed.out, closed.err) == (2, "", "")
    assert "no SQL" in complaint(run("sql", preexec_fn=lambda: os.close(0)), 2)


@pytest.mark.slow
def test_a_reader_that_has_seen_enough(db: Path) -> None:
    process = start("sql", "SELECT repeat('x', 1000) FROM range(5000)", "--format", "csv")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait() == 141


@pytest.mark.slow
def test_a_working_directory_that_is_gone(db: Path, tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()

    def leave() -> None:
        os.chdir(tmp_path / "gone")
        (tmp_path / "gone").rmdir()

    environment = {name: value for name, value in os.environ.items() if name != "TBD_TRACE_DB"}
    assert "no such file" in complaint(run("ingest", "x", preexec_fn=leave, env=environment), 1)
    (tmp_path / "gone").mkdir()
    line = complaint(run("ingest", TIMELINE, preexec_fn=leave, env=environment), 1)
    assert "tbd-trace.traces/v2: cannot be written (No such file or directory)" in line
