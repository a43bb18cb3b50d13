"""Interruptions, full disks, and several processes at once: nothing lost, nothing left behind."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest

from corpus import ROOT
from fast import nightly, slow
from program import (
    METRICS,
    TIMELINE,
    Outcome,
    complaint,
    end,
    invoke,
    rows,
    run,
    start,
    state,
)
from tbd_trace.store import Database

pytestmark = [pytest.mark.usefixtures("elsewhere"), pytest.mark.slow]

ITERATIONS = 2000
KERNELS_PER_ITERATION = 25
COUNT = ("sql", "SELECT count(*) FROM kernel", "--format", "csv")


@pytest.fixture(scope="session")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a profile that takes a while to ingest."""
    folder = tmp_path_factory.mktemp("big")
    make = [sys.executable, str(ROOT / "tools" / "make_sample.py"), f"--iterations={ITERATIONS}"]
    subprocess.run([*make, f"--output={folder}"], check=True, capture_output=True)
    return folder / "timeline.sqlite"


@pytest.fixture
def db() -> Path:
    """Return a database with one trace, relative to the working directory."""
    assert invoke("ingest", METRICS, "--db", "x.duckdb").code == 0
    return Path("x.duckdb")


def own_profile(number: int) -> Path:
    """Write a profile with one more kernels than its number."""
    path = Path(shutil.copyfile(TIMELINE, f"own{number}.sqlite"))
    with sqlite3.connect(path) as file:
        file.execute("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE rowid > ?", [number + 1])
    file.close()
    return path


def staging(db: Path) -> list[Path]:
    """Return the private directories of ingests."""
    return list(db.with_suffix(".traces").glob("v2/.[0-9a-f]*-*"))


def wait_for(what: Callable[[], object], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.01)


def started_ingest(profile: Path, db: Path) -> subprocess.Popen[str]:
    """Start an ingest and return once it writes rows."""
    process = start("ingest", profile, "--db", db)
    wait_for(lambda: process.poll() is not None or list(db.parent.glob("x.traces/v2/.*/*.parquet")))
    assert process.poll() is None
    return process


# -- interruptions -------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_ingest_leaves_nothing(big: Path, db: Path, number: signal.Signals) -> None:
    before = state(Path.cwd())
    process = started_ingest(big, db)
    process.send_signal(number)
    assert end(process, timeout=20) == Outcome(128 + number, "", "")
    assert state(Path.cwd()) == before


@slow
def test_a_killed_ingest_is_as_if_it_never_was(big: Path, db: Path) -> None:
    process = started_ingest(big, db)
    process.kill()
    assert end(process).code == -signal.SIGKILL
    assert rows(invoke(*COUNT, "--db", db)) == ["25"]
    assert len(rows(invoke("info", "--db", db, "--format", "csv"))) == 1
    with duckdb.connect(db, read_only=True) as shell:
        assert shell.sql("SELECT count(*) FROM kernel").fetchall() == [(25,)]
    assert (
        f" {ITERATIONS * KERNELS_PER_ITERATION + 1:,} kernels"
        in invoke("ingest", big, "--db", db).out
    )
    assert staging(db) == []  # the next ingest removes what the killed one left


def test_an_interrupted_first_ingest_makes_no_database(big: Path) -> None:
    process = started_ingest(big, Path("x.duckdb"))
    process.send_signal(signal.SIGINT)
    assert end(process, timeout=20).code == 130
    assert list(Path.cwd().iterdir()) == []


ENDLESS = "SELECT count(*) FROM range(1000000000000) WHERE hash(range) % 7 = 0"


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=nightly)])
def test_a_query_stops_on_a_signal(db: Path, number: signal.Signals) -> None:
    """DuckDB's threads work for as long as the statement takes, and do not look for signals."""
    process = start("sql", ENDLESS, "--db", db)
    wait_for(lambda: _cpu_seconds(process.pid) > 2)
    began = time.monotonic()
    process.send_signal(number)
    assert end(process, timeout=20) == Outcome(128 + number, "", "")
    assert time.monotonic() - began < 10


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


INTERRUPTED_IMPORT = """
import os, signal, sys, time
import tbd_trace.__main__

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name != {module!r}:
            return None
        sys.meta_path.remove(self)
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)
        except KeyboardInterrupt:
            raise {error}

sys.meta_path.insert(0, Interrupt())
sys.argv = ["tbd-trace", "info", "--db", "x.duckdb"]
tbd_trace.__main__.main()
"""


@pytest.mark.parametrize(
    ("module", "error"),
    [
        ("tbd_trace.cli.main", "KeyboardInterrupt"),
        pytest.param("tbd_trace.cli.main", "ImportError", marks=nightly),
        pytest.param("polars", "KeyboardInterrupt", marks=nightly),
        ("polars", "ImportError"),
        ("duckdb", "KeyboardInterrupt"),
        pytest.param("duckdb", "ImportError", marks=nightly),
    ],
)
def test_an_import_is_interrupted(db: Path, module: str, error: str) -> None:
    """A library in C may turn the interrupt into its own error."""
    code = INTERRUPTED_IMPORT.format(module=module, error=error)
    asked = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (asked.returncode, asked.stdout, asked.stderr) == (130, b"", b"")


# -- full disks ----------------------------------------------------------------------------------


def limited(size: int) -> Callable[[], None]:
    """Return what lets a process write no file larger than some bytes, as a full disk would."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


@contextmanager
def limited_here(size: int) -> Iterator[None]:
    """Let this process write no file larger than some bytes for a while."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def without_compiled_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep Python from writing compiled modules: it takes one that the limit cut for whole."""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")  # other processes
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # this one


@pytest.mark.usefixtures("without_compiled_modules")
@pytest.mark.parametrize("size", [100, 10_000])  # of nothing; of the kernels
def test_no_room_for_a_trace(big: Path, db: Path, size: int) -> None:
    before = state(Path.cwd())
    line = complaint(run("ingest", big, "--db", db, preexec_fn=limited(size)), 1)
    assert "x.traces/v2: cannot be written (File too large); choose another place" in line
    assert state(Path.cwd()) == before


@pytest.mark.usefixtures("without_compiled_modules")
def test_no_room_for_an_answer(db: Path) -> None:
    Path("answer.csv").write_text("the old answer")
    before = without_cache(state(Path.cwd()))
    asked = ("query", "kernel_summary", "--db", db, "-o", "answer.csv")
    line = complaint(run(*asked, preexec_fn=limited(100)), 1)
    assert "answer.csv: cannot be written (File too large)" in line
    assert without_cache(state(Path.cwd())) == before


def without_cache(found: dict[str, str]) -> dict[str, str]:
    """Leave out derived relations, which a slow machine caches."""
    return {path: digest for path, digest in found.items() if "derived" not in path}


@pytest.mark.usefixtures("without_compiled_modules")
@pytest.mark.parametrize(
    ("command", "target"),
    [
        (("archive", "create"), "run"),
        (("archive", "create"), "run.zip"),
        pytest.param(("report",), "run.html", marks=nightly),
        (("export", "table", "kernel", "--keep", "all"), "kernel.csv"),
        (("export", "table", "kernel", "--keep", "all"), "kernel.parquet"),
        (("query", "kernel_summary", "--plot"), "kernels.png"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-",
)
def test_no_room_for_a_file(db: Path, command: tuple[str, ...], target: str) -> None:
    """The message names the file; the database, from which it is made, is sound."""
    before = without_cache(state(Path.cwd()))
    output = () if command[-1] == "--plot" else ("-o",)
    with limited_here(1000):
        outcome = invoke(*command, *output, target, "--db", db)
    assert outcome.code == 1
    assert outcome.err.endswith(f"{target}: cannot be written (File too large)\n")
    assert without_cache(state(Path.cwd())) == before


# -- several processes ---------------------------------------------------------------------------


@slow
def test_many_ingest_at_once_while_others_ask() -> None:
    """Five processes create a database: one with an invalid file, four with two profiles each."""
    Path("bad.csv").write_text("no profile")
    bad = start("ingest", "bad.csv", "--db", "x.duckdb")
    shared = own_profile(100)
    profiles = [own_profile(number) for number in range(4)]
    ingests = [start("ingest", shared, profile, "--db", "x.duckdb") for profile in profiles]
    asked = []
    while any(process.poll() is None for process in ingests):
        asked.append(invoke(*COUNT, "--db", "x.duckdb"))
        time.sleep(0.5)
    outcomes = [end(process) for process in ingests]
    assert "unsupported file format" in complaint(end(bad), 1)
    assert [(outcome.code, outcome.err) for outcome in outcomes] == [(0, "")] * 4
    statuses = [[line.split()[4] for line in outcome.out.splitlines()] for outcome in outcomes]
    assert [first for first, _ in statuses].count("ingested") == 1
    assert {second for _, second in statuses} == {"ingested"}
    for outcome in asked:
        if outcome.code != 0:
            assert "there is no database" in complaint(outcome, 2)
    seen = [int(rows(outcome)[0]) for outcome in asked if outcome.code == 0]
    assert seen == sorted(seen)
    total = 101 + sum(range(1, 5))
    assert rows(invoke(*COUNT, "--db", "x.duckdb")) == [str(total)]
    with duckdb.connect("x.duckdb", read_only=True) as shell:
        assert shell.sql("SELECT count(*) FROM kernel").fetchall() == [(total,)]
    assert staging(Path("x.duckdb")) == []


def test_a_trace_that_is_removed_while_it_is_read(db: Path) -> None:
    """A reader sees all of a trace or gets the error that it went."""
    profile = own_profile(6)
    code = (
        "from pathlib import Path\n"
        "from tbd_trace.store import Database\n"
        "database = Database(Path('x.duckdb'))\n"
        "for _ in range(3):\n"
        f"    [report] = database.ingest([Path({profile.name!r})])\n"
        "    database.remove([report.trace_id])\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE) as process:
        asked = []
        while process.poll() is None:
            asked.append(invoke(*COUNT, "--db", db))
        assert process.returncode == 0, process.stderr and process.stderr.read()
    for outcome in asked:
        if outcome.code == 0:
            assert rows(outcome) in (["25"], ["32"])
        else:
            assert "was removed while it was read; ask again" in complaint(outcome, 1)
    assert any(outcome.code == 0 for outcome in asked)
    assert rows(invoke(*COUNT, "--db", db)) == ["25"]


def test_a_trace_that_is_removed_at_the_worst_time(
    db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As above, without leaving it to chance: listed, then gone."""
    assert invoke("ingest", own_profile(6), "--db", db).code == 0
    listed = Database(db).trace_ids()
    monkeypatch.setattr(Database, "trace_ids", lambda _, listed=listed: listed)
    shutil.rmtree(Database(db).traces_directory / listed[0])
    for command in (COUNT, ("query", "kernel_summary"), ("info",)):
        line = complaint(invoke(*command, "--db", db), 1)
        assert f"trace {listed[0]} was removed while it was read; ask again" in line


@pytest.fixture
def shell(db: Path) -> Iterator[subprocess.Popen[str]]:
    """Hold the database's file open to write in another DuckDB."""
    code = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('open', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(db)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        yield process
        process.kill()


def test_a_database_that_another_duckdb_holds(db: Path, shell: subprocess.Popen[str]) -> None:
    assert invoke("ingest", own_profile(4), "--db", db).code == 0
    assert rows(run(*COUNT, "--db", db)) == ["30"]
    shutil.rmtree(db.with_suffix(".traces"))
    assert shell.poll() is None
    assert invoke("ingest", METRICS, "--db", db).code == 0
    shell.communicate("\n")  # its end: now the views can be renewed
    assert invoke("ingest", METRICS, "--db", db).code == 0
    with duckdb.connect(db, read_only=True) as reader:
        assert reader.sql("SELECT count(*) FROM kernel").fetchall() == [(25,)]
