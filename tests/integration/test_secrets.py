"""What a profile knows about its user's environment, command line and output stays in the profile.

What does reach the database is what programs say in order to be seen in a profile: NVTX texts,
kernel and thread names, the name of the executable; and the path from which a file was ingested.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from functools import cache
from pathlib import Path

import duckdb
import pytest

import made_nsys
from corpus import corpus_files
from fast import one_in
from program import SAMPLE, TIMELINE, invoke, rows

# Of a real export: where the profiler keeps what it knows about the user. Short values are numbers
# and names of signals, devices and systems.
ABOUT_THE_USER = {
    "TARGET_INFO_SYSTEM_ENV": "value",
    "META_DATA_CAPTURE": "value",
    "ProcessStreams": "contentId",
}
SHORTEST = 8
SAID_BY_THE_PROGRAM = {
    *(("annotation", name) for name in ("text", "category", "payload")),
    *(("process", "name"), ("thread", "name"), ("trace", "name"), ("trace", "path")),
}
PLANTED = {
    "API_KEY": "sk-planted-0a1b2c3d4e",
    "--api-key": "argv-planted-5f6a7b8c",
    "stdout": "printed-planted-9d8e7f",
    "host": "host-planted-1122aa",
    "user": "user-planted-3344bb",
}


@cache
def stored(database: Path) -> list[tuple[str, str, str]]:
    """Return every value of every Parquet file as text: table, column, value."""
    found: list[tuple[str, str, str]] = []
    with duckdb.connect() as connection:
        for file in database.with_suffix(".traces").rglob("*.parquet"):
            listed = f"read_parquet('{file}')"
            for column in connection.sql(f"FROM {listed}").columns:
                values = f"SELECT DISTINCT CAST({column} AS VARCHAR) FROM {listed}"
                rows = connection.execute(values).fetchall()
                found += [(file.stem, column, value or "") for (value,) in rows]
    return found


@cache
def everything(database: Path) -> str:
    """Return all that is stored, and all bytes of the database's files, as one text."""
    files = [database, *database.with_suffix(".traces").rglob("*")]
    raw = [file.read_bytes().decode("latin-1") for file in files if file.is_file()]
    return "\n".join([*raw, *(value for *_, value in stored(database))])


def shown_text(database: Path) -> str:
    """Return what the program prints about the traces of a database."""
    traces = [row.split(",")[0] for row in rows(invoke("info", "--db", database, "--format=csv"))]
    answers = [
        invoke("info", *traces, "--db", database, "--format=json"),
        invoke("query", "trace_info", "--db", database, "--format=json"),
    ]
    return "".join(answer.out + answer.err for answer in answers)


def ingested(tmp_path: Path, *paths: Path) -> Path:
    database = tmp_path / "db" / "x.duckdb"
    outcome = invoke("ingest", *paths, "--db", database)
    assert outcome.code == 0, outcome
    for secret in PLANTED.values():
        assert secret not in outcome.out + outcome.err
    return database


def nothing_planted_in(database: Path) -> None:
    kept = everything(database)
    shown = shown_text(database)
    for secret in PLANTED.values():
        assert secret not in kept
        assert secret not in shown


@pytest.mark.slow
def test_the_search_finds_what_is_there(tmp_path: Path) -> None:
    """A kernel's name is public: the tests below would find it, wherever it were."""
    database = ingested(tmp_path, TIMELINE)
    assert "ampere_scudnn_128x64_relu_medium_nn_v1" in everything(database)
    assert "timeline.sqlite" in shown_text(database)


@pytest.mark.slow
def test_nsys_exports_with_secrets(tmp_path: Path) -> None:
    """Everywhere that Nsight Systems puts what it knows about processes."""
    path = Path(shutil.copyfile(TIMELINE, tmp_path / "run.sqlite"))
    environment = f"API_KEY={PLANTED['API_KEY']}\nUSER={PLANTED['user']}"
    with sqlite3.connect(path) as file:
        strings = "INSERT INTO StringIds (id, value) VALUES (?, ?)"
        for number, secret in enumerate(PLANTED.values(), 900_000):
            file.execute(strings, [number, secret])
        file.execute("CREATE TABLE META_DATA_CAPTURE (name TEXT, value TEXT)")
        file.executemany(
            "INSERT INTO META_DATA_CAPTURE VALUES (?, ?)",
            [
                ("COLLECT_PARAMETER:ENVIRONMENT", environment),
                ("PROCESS_0:ARGUMENT_1", f"--api-key={PLANTED['--api-key']}"),
                ("HOST_NAME", PLANTED["host"]),
            ],
        )
        file.execute("CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT)")
        file.execute(
            "INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_PARAM_INPUT_PATH_ABS', ?)",
            [f"/home/{PLANTED['user']}/run.nsys-rep"],
        )
        columns = [row[1] for row in file.execute("PRAGMA table_info(TARGET_INFO_SYSTEM_ENV)")]
        values = {"name": "Environment", "nameEnum": 1, "value": environment}
        marks = ", ".join("?" * len(columns))
        file.execute(
            f"INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES ({marks})",
            [values.get(name, PLANTED["host"]) for name in columns],
        )
        file.execute("CREATE TABLE ProcessStreams (globalPid INT, filenameId INT, contentId INT)")
        file.execute("INSERT INTO ProcessStreams VALUES (1, 900002, 900002)")
        file.execute("CREATE TABLE ANALYSIS_FILE (id INT, filename TEXT, content TEXT)")
        file.execute("INSERT INTO ANALYSIS_FILE VALUES (1, 'stdout', ?)", [PLANTED["stdout"]])
    file.close()
    nothing_planted_in(ingested(tmp_path, path))


@pytest.mark.slow
def test_everything_that_a_made_export_holds(tmp_path: Path) -> None:
    """The reader's own collection of places, with processes that were not profiled."""
    path = made_nsys.write(tmp_path / "all.sqlite", made_nsys.profile())
    database = ingested(tmp_path, path)
    assert made_nsys.SECRET not in everything(database)
    assert made_nsys.SECRET not in shown_text(database)


@pytest.mark.slow
def test_nvprof_databases_with_secrets(tmp_path: Path) -> None:
    """Texts that no activity names, and files, functions and buffers of the program's own."""
    path = tmp_path / "run.nvvp"
    prefix = "CUPTI_ACTIVITY_KIND_"
    secrets = list(PLANTED.values())
    with sqlite3.connect(path) as file:
        file.execute("CREATE TABLE Version (version INTEGER)")
        file.execute("INSERT INTO Version VALUES (18)")
        file.execute("CREATE TABLE StringTable (_id_ INTEGER PRIMARY KEY, value TEXT)")
        texts = ["_Z4gemmPf", *(f"--api-key={secret}" for secret in secrets)]
        file.executemany("INSERT INTO StringTable VALUES (?, ?)", enumerate(texts, 1))
        file.execute(
            f"CREATE TABLE {prefix}CONCURRENT_KERNEL (_id_ INTEGER PRIMARY KEY, start INT, "
            '"end" INT, deviceId INT, contextId INT, streamId INT, correlationId INT, name INT)'
        )
        file.execute(f"INSERT INTO {prefix}CONCURRENT_KERNEL VALUES (1, 100, 200, 0, 1, 7, 5, 1)")
        for table in ("SOURCE_LOCATOR", "MODULE", "ENVIRONMENT"):
            file.execute(f"CREATE TABLE {prefix}{table} (_id_ INTEGER PRIMARY KEY, a INT, b BLOB)")
            file.execute(f"INSERT INTO {prefix}{table} VALUES (1, 2, ?)", [secrets[0].encode()])
        file.execute("CREATE TABLE SESSION (command TEXT, environment TEXT)")
        file.execute("INSERT INTO SESSION VALUES (?, ?)", [secrets[1], secrets[0]])
    file.close()
    database = ingested(tmp_path, path)
    assert "gemm(float*)" in everything(database)
    nothing_planted_in(database)


@pytest.mark.slow
def test_captures_with_secrets(tmp_path: Path) -> None:
    """Fields that nobody asked for, on the top and inside of those that are kept."""
    capture = Path(shutil.copytree(SAMPLE, tmp_path / "capture"))
    extra = {
        "env": {"API_KEY": PLANTED["API_KEY"]},
        "command": ["train", f"--api-key={PLANTED['--api-key']}"],
        "host": PLANTED["host"],
        "stdout": PLANTED["stdout"],
        "user": PLANTED["user"],
    }
    document = json.loads((capture / "capture.json").read_text()) | extra
    for entry in document["files"]:
        entry.update(extra)
    for field in ("throughput", "iteration_window"):
        document[field] |= extra
    document["model"] = {"name": "cnn", **extra}
    document["dataset"] = [extra]
    (capture / "capture.json").write_text(json.dumps(document))
    layers = json.loads((capture / "layers.json").read_text())
    for layer in [layers, *layers["layers"]]:
        layer.update(extra)
    (capture / "layers.json").write_text(json.dumps(layers))
    database = ingested(tmp_path, capture)
    assert "small-cnn" not in everything(database)  # no longer the text that it should be
    assert "image classification" in everything(database)
    nothing_planted_in(database)


def known_about_the_user(path: Path) -> set[str]:
    """Return what a real export knows about its user; <redacted> stands for what was taken out."""
    found: set[str] = set()
    with sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True) as file:
        file.text_factory = lambda raw: raw.decode("utf-8", "replace")
        tables = {name for (name,) in file.execute("SELECT name FROM sqlite_master")}
        for table, column in ABOUT_THE_USER.items():
            if table not in tables:
                continue
            values = f"SELECT {column} FROM {table}"
            if column == "contentId":
                values = f"SELECT value FROM StringIds WHERE id IN ({values})"
            found |= {str(value) for (value,) in file.execute(values)}
    return {value for value in found if len(value) >= SHORTEST}


REAL = ("*GindaChen*mfu_2gpu_after*", "*Fuser__report1.sqlite", "*w_Relu__nsys_profile.sqlite")


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", one_in(3, corpus_files(*(f"nsys/{name}" for name in REAL)), then_one_in=2)
)
def test_real_exports(tmp_path: Path, path: Path) -> None:
    secrets = known_about_the_user(path)
    database = ingested(tmp_path, path)
    for table, column, value in stored(database):
        if (table, column) not in SAID_BY_THE_PROGRAM:
            assert not [secret for secret in secrets if secret in value], (table, column)
    arguments = {secret for secret in secrets if secret.startswith("-") or "=" in secret}
    kept, shown = everything(database), shown_text(database)
    assert not [secret for secret in arguments | {"<redacted>"} if secret in kept + shown]
