"""Run tbd-trace on one changed input in this process, and classify the outcome."""

from __future__ import annotations

import os
import random
import shutil
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import duckdb
from typer.testing import CliRunner

from fuzz.changes import CHANGES, MARKER
from fuzz.counts import Count, count_kernels
from fuzz.seeds import KINDS
from tbd_trace.cli.main import app
from tbd_trace.errors import TbdTraceError
from tbd_trace.query import Catalogue
from tbd_trace.store import Database, identified_files

ANSWERED, NOTED, REFUSED, DEFECT = "answered", "noted", "refused", "defect"
_EXIT_CODES = (0, 1, 2, 3)
_LIMIT_S = 10  # CPU time
_WHOLE = 0.04  # share of the files that are ingested with all tables, also those empty in the seed
_ASKED = 0.3  # share of the whole ingests that a command follows
_NO_ANSWER = ("archive", "store")  # queried by the command, never ingested


class Defect(Exception):
    """The program broke a promise; the message says which."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one input."""

    kind: str
    number: int
    verdict: str
    message: str = ""
    path: str = ""  # of the changed input, which is there until the next one


@dataclass(frozen=True, slots=True)
class Ingested:
    """Kernels of an ingested file, the tables with rows, and the notes."""

    kernels: Count
    holds: frozenset[str]
    notes: frozenset[str]


class Target:
    """Judges inputs; the seeds are made once.

    Args:
        folder: empty directory for seeds and inputs.
        seed: start of the random numbers; equal seeds give equal inputs.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder = folder
        self._seed = seed
        os.environ["TBD_TRACE_CACHE"] = str(folder / "cache")
        warnings.simplefilter("ignore")

    def run(self, kind: str, number: int) -> Outcome:
        """Change a seed, give it to the program and return what happened."""
        place = self._folder / "input"
        shutil.rmtree(place, ignore_errors=True)
        shutil.rmtree(self._folder / "cache", ignore_errors=True)
        seed = self._seed_of(kind)
        path = place / seed.name
        if seed.is_dir():
            shutil.copytree(seed, path)
        else:
            place.mkdir()
            shutil.copy(seed, path)
        rng = random.Random(f"{self._seed} {kind} {number}")
        CHANGES[kind](rng, path)
        begin = time.process_time()
        try:
            verdict, message = self._judge(rng, kind, path)
        except Exception as error:
            verdict, message = DEFECT, _described(error)
        if time.process_time() - begin > _LIMIT_S:
            verdict, message = DEFECT, f"longer than {_LIMIT_S} s"
        if (place / MARKER).exists():
            verdict, message = DEFECT, "a pickle was executed"
        return Outcome(kind, number, verdict, message, str(path))

    @cache  # noqa: B019 one target per process
    def _seed_of(self, kind: str) -> Path:
        folder = self._folder / "seeds" / kind
        folder.mkdir(parents=True)
        return KINDS[kind](folder)

    @cache  # noqa: B019
    def _expected(self, kind: str) -> str:
        code, out = _command(*_question(kind, self._seed_of(kind)))
        assert code == 0, out
        return out

    @cache  # noqa: B019
    def _usual(self, kind: str) -> Ingested:
        return _ingest(Database(self._folder / f"{kind}.duckdb"), self._seed_of(kind))

    def _judge(self, rng: random.Random, kind: str, path: Path) -> tuple[str, str]:
        if kind in _NO_ANSWER:
            code, out = _command(*_question(kind, path))
            if code:
                return REFUSED, out
            if out != self._expected(kind):
                raise Defect("another answer than from the undamaged file")
            return ANSWERED, ""
        os.environ["TBD_TRACE_READER"] = rng.choice(("pages", "sqlalchemy"))
        usual = self._usual(kind)
        whole = rng.random() < _WHOLE
        # As a query does that is given a file: only the tables that it needs.
        tables = usual.holds.intersection(["kernel"]) or usual.holds
        database = Database(path.parent / "db.duckdb", tables=None if whole else tables)
        try:
            found = _ingest(database, path)
        except TbdTraceError as error:
            return REFUSED, _one_line(str(error))
        if whole and rng.random() < _ASKED:
            views = Database(database.path)
            views.ingest([path])
            _command(*_some_command(rng, database.path))
        expected = count_kernels(kind, path)
        has_new_note = bool(found.notes - usual.notes)
        if expected not in (None, found.kernels) and not has_new_note:
            raise Defect(f"{found.kernels} kernels and ns instead of {expected}, without a note")
        return (NOTED if has_new_note else ANSWERED), ""


def _ingest(database: Database, path: Path) -> Ingested:
    files = identified_files([path])
    database.ingest_identified(files)
    ids = database.trace_ids()
    with duckdb.connect() as connection:
        select = "SELECT count(*), coalesce(sum(duration_ns), 0) FROM ({})"
        relation = database.relation("kernel", ids)
        count, total = connection.execute(select.format(relation)).fetchall()[0]
        rows = connection.execute(f"SELECT holds, notes FROM ({database.relation('trace', ids)})")
        ((holds, notes),) = rows.fetchall()
    return Ingested((int(count), int(total)), frozenset(holds), frozenset(notes))


def _question(kind: str, path: Path) -> Sequence[str]:
    place = path / "seed.duckdb" if kind == "store" else path
    return ("query", "kernel_summary", "--db", str(place), "--format", "csv")


def _some_command(rng: random.Random, database: Path) -> Sequence[str]:
    commands: list[Callable[[], Sequence[str]]] = [
        lambda: (
            "query",
            rng.choice([found.name for found in Catalogue().metrics()]),
            "--db",
            str(database),
        ),
        lambda: ("info", "--db", str(database)),
        lambda: ("check", "--db", str(database)),
        lambda: ("why", "--db", str(database)),
        lambda: ("export", "perfetto", "--db", str(database), "-o", f"{database}.pftrace"),
    ]
    return rng.choices(commands, (8, 1, 1, 1, 1))[0]()


def _command(*arguments: str) -> tuple[int, str]:
    # The last part of the message is the error, if there is one.
    result = CliRunner().invoke(app, list(arguments))
    shown = " ".join(arguments[:2])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise Defect(f"{shown}: {_described(result.exception)}") from result.exception
    errors = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    if result.exit_code not in _EXIT_CODES:
        raise Defect(f"{shown}: exit code {result.exit_code}")
    if len(errors) != int(result.exit_code != 0) and arguments[0] != "check":
        raise Defect(f"{shown}: exit code {result.exit_code} with {len(errors)} error lines")
    return result.exit_code, _one_line(errors[0]) if errors else result.stdout


def _one_line(message: str) -> str:
    if "\n" in message or not message:
        raise Defect(f"an error of several lines: {message!r}")
    return message


def _described(error: BaseException) -> str:
    if isinstance(error, Defect):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)
    at = next((f for f in reversed(frames) if "tbd_trace" in f.filename), frames[-1])
    text = " ".join(str(error).split())
    return f"{type(error).__name__} at {Path(at.filename).name}:{at.lineno}: {text[:300]}"
