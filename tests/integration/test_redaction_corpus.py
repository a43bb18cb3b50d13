"""Nothing that a real profile knows about its user is left in its tables after redaction.

What a profile knows is gathered here straight from the SQLite files: the settings in which the
profiler notes hosts, users, directories and environments, and home directories wherever they are.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from polars.testing import assert_frame_equal

import all_answers
from corpus import corpus_file, matching, relative
from fast import nightly, one_in
from real_traces import Traces
from tbd_trace.archive.leak_scan import leaks, leaks_in_tables
from tbd_trace.archive.operations import create
from tbd_trace.archive.store import Archive
from tbd_trace.model.canonical_tables import canonical_tables
from tbd_trace.query import Result, connect
from tbd_trace.redact.json_documents import Redactor
from tbd_trace.redact.tables import (
    Redaction,
    TableRedactor,
    collect_identities,
    private_columns,
)

pytestmark = pytest.mark.needs("corpus")

SETTINGS = ("TARGET_INFO_SYSTEM_ENV", "META_DATA_CAPTURE", "META_DATA_EXPORT", "EXPORT_META_DATA")
ABOUT = re.compile(r"(?i)host_?name|export_host|display_name|user|environ|argument")
DIRECTORY = re.compile(r"(?i)path|_dir$")
VARIABLE = re.compile(r"^[A-Za-z_]\w*=(.+)$", re.MULTILINE)
HOME = re.compile(r"(?:/home/|/Users/|/localhome/|C:\\Users\\)[\w.-]+")
DIRECTORIES = re.compile(r"/(?:workspace|opt|root|data|tmp)/[\w./-]+/")
# Shorter ones and these are in many words; the directories that they are in are looked for.
SHORTEST = 6
ORDINARY = {"ubuntu", "UNKNOWN", "<redacted>"}
# PyProf and DLProf write the paths of source files into the texts of their ranges.
WITH_PATHS = (
    "nsys/MohanadOdema_DLProf__nsys_profile.sqlite",
    "nvprof/josiahdavis_profiling-lm__net.sql",
    "nsys/yyhtbs-yye_mmagic_vsr_v2__net.sqlite",
    "nvprof_csv/josiahdavis_profiling-lm__net.api_trace.csv",
)


@pytest.fixture(params=["some", pytest.param("all", marks=nightly)])
def profiles(request: pytest.FixtureRequest) -> list[str]:
    """Return real traces by name, relative to the corpus."""
    found = matching("nsys/*", "nvprof/*", "nvprof_csv/*", "ncu/*")
    names = sorted(relative(path) for path in found if path.is_file())
    return names[::8] if request.param == "some" else names


def known_about_the_user(path: Path) -> set[str]:
    """Return hosts, users, directories, arguments and values of variables that a file holds."""
    if path.open("rb").read(6) != b"SQLite":
        return set(HOME.findall(path.read_bytes().decode("utf-8", "replace")))
    found: set[str] = set()
    with sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True) as file:
        file.text_factory = lambda raw: raw.decode("utf-8", "replace")
        for text in texts(file):
            found |= {*HOME.findall(text), *DIRECTORIES.findall(text), *VARIABLE.findall(text)}
        tables = {name for (name,) in file.execute("SELECT name FROM sqlite_master")}
        for table in tables.intersection(SETTINGS):
            for name, value in file.execute(f"SELECT name, value FROM {table}"):
                if DIRECTORY.search(str(name)):  # a trace is known by its file's name
                    found.add(str(value)[: max(map(str(value).rfind, "/\\")) + 1])
                elif ABOUT.search(str(name)):
                    found.add(str(value))
    return {text for text in found if len(text) >= SHORTEST} - ORDINARY


def texts(file: sqlite3.Connection) -> Iterator[str]:
    """Yield every text of the tables in which profilers keep texts."""
    for table, column in (
        ("StringIds", "value"),
        ("StringTable", "value"),
        ("NVTX_EVENTS", "text"),
    ):
        columns = [row[1] for row in file.execute(f"PRAGMA table_info({table})")]
        if column in columns:
            select = f"SELECT DISTINCT {column} FROM {table} WHERE {column} IS NOT NULL"
            yield from (str(text) for (text,) in file.execute(select))


def stored(connection: duckdb.DuckDBPyConnection, selects: dict[str, str]) -> str:
    """Return every text of some SELECTs of canonical tables, one by one, as a text."""
    lines: list[str] = []
    for table, select in selects.items():
        texts = [c.name for c in canonical_tables()[table].columns if c.type.startswith("VARCHAR")]
        listed = ", ".join(f"{name}::VARCHAR" for name in texts if name != "trace_id")
        values = f"SELECT DISTINCT unnest([{listed}]) FROM ({select})"
        lines += [text or "" for (text,) in connection.execute(values).fetchall()] if listed else []
    return "\n".join(lines)


@pytest.mark.slow
def test_nothing_about_the_user_is_left(traces: Traces, profiles: list[str]) -> None:
    secrets = {name: known_about_the_user(corpus_file(name)) for name in profiles}
    assert sum(map(bool, secrets.values())) > len(secrets) / 2
    left = []
    for name, known in secrets.items():
        with duckdb.connect() as connection:
            for table in canonical_tables() if known else ():
                relation = traces.database.relation(table, [traces.id(name)])
                connection.execute(f"CREATE VIEW {table} AS {relation}")
            redactor = TableRedactor(connection)
            tables = {t: redactor.select(t, f"FROM {t}") for t in canonical_tables() if known}
            kept = stored(connection, tables)
        assert not known or Path(name).name in kept  # the texts are there
        left += [(name, secret) for secret in known if secret in kept]
    assert left == []


@pytest.mark.slow
@pytest.mark.parametrize("name", one_in(4, WITH_PATHS, then_one_in=5))
def test_answers_stay_the_same(traces: Traces, name: str, tmp_path: Path) -> None:
    """Attribution reads the very texts in which paths and arguments are."""
    trace_id = traces.id(name)
    manifest = create(traces.database, [trace_id], tmp_path / "archive", redaction=Redaction())
    assert manifest.traces[0].replaced.keys() & {"source-paths", "kernel-arguments"}
    archive = Archive(str(tmp_path / "archive"), tmp_path / "cache")
    queries = ("dominant_layer", "layer_time", "kernel_summary", "step_breakdown")
    found = all_answers.answers(archive, queries, [trace_id])
    for query, expected in all_answers.answers(traces.database, queries, [trace_id]).items():
        if isinstance(expected, Result):
            answer = found[query]
            assert isinstance(answer, Result), query
            assert_frame_equal(answer.frame, expected.frame)


@pytest.mark.parametrize("name", WITH_PATHS)
def test_what_leaks_is_listed(traces: Traces, name: str) -> None:
    """Of the file and of its tables, without the names themselves."""
    with connect(traces.database, [traces.id(name)]) as connection:
        for frame in (leaks(corpus_file(name)), leaks_in_tables(connection)):
            assert "source-paths" in frame["kind"].to_list()
            shown = frame.write_csv()
            assert not [
                known for known in known_about_the_user(corpus_file(name)) if known in shown
            ]


@pytest.mark.slow
def test_names_of_kernels_stay(traces: Traces, profiles: list[str]) -> None:
    """None of the corpus is private, so redaction must change none of them."""
    names = 0
    for name in profiles:
        with connect(traces.database, [traces.id(name)]) as connection:
            redactor = Redactor()
            collect_identities(connection, redactor)
            for table, column, policy in private_columns(connection):
                if policy == "code":
                    select = f"SELECT DISTINCT {column} FROM {table} WHERE {column} IS NOT NULL"
                    for (text,) in connection.execute(select).fetchall():
                        assert redactor.value(policy, text, lambda *_: None) == text
                        names += 1
    assert names > (3000 if len(profiles) > 50 else 300)
