"""What would leak from profiler files, captures and archives, listed without giving it away."""

from __future__ import annotations

import gzip
import json
import shutil
import sqlite3
from pathlib import Path

import pytest

import made_nsys
from corpus import ROOT
from tbd_trace.archive.leak_scan import leaks
from tbd_trace.archive.operations import create
from tbd_trace.errors import InputError
from tbd_trace.redact.tables import Redaction, parse_keep
from tbd_trace.store import Database

SAMPLE = ROOT / "data" / "samples" / "synthetic_cnn"
ENVIRONMENT = "PATH=/usr/bin\nHOME=/home/gwendolyn\nWANDB_API_KEY=0a1b2c3d4e5f6a7b8c9d"
PLANTED = (
    "gwendolyn",
    "0a1b2c3d4e5f6a7b8c9d",
    "argv-planted-5f6a7b",
    "printed-planted",
    "alphanode",
)


@pytest.fixture(autouse=True)
def machine(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path_factory.getbasetemp()  # has the real user's name
    monkeypatch.setattr("socket.gethostname", lambda: "lab-node-17")
    monkeypatch.setattr("getpass.getuser", lambda: "jabberwocky")
    monkeypatch.setenv("HOME", "/home/jabberwocky")


def listed(path: Path) -> dict[tuple[str, str], tuple[int, str]]:
    """Return what a path would leak; the list itself leaks nothing that was planted."""
    frame = leaks(path)
    assert frame.columns == ["kind", "where", "count", "example"]
    shown = frame.write_csv()
    assert not [secret for secret in PLANTED if secret in shown]
    return {(kind, where): (count, example) for kind, where, count, example in frame.rows()}


def profile(path: Path) -> Path:
    """Write an export that tells all it can about its user."""
    tables = made_nsys.profile()
    tables["StringIds"] += [
        {"id": 900, "value": "printed-planted: epoch 1"},
        {"id": 901, "value": ENVIRONMENT.replace("WANDB", "MLFLOW")},
        {"id": 902, "value": "loaded on alphanode"},
    ]
    tables["ProcessStreams"] = [{"globalPid": 1, "filenameId": 900, "contentId": 900}]
    tables["META_DATA_EXPORT"] = [
        {"name": "EXPORT_USER", "value": "gwendolyn"},
        {"name": "EXPORT_PARAM_INPUT_PATH_ABS", "value": "/home/gwendolyn/run.nsys-rep"},
        {"name": "EXPORT_SCHEMA_VERSION", "value": "3.25.0"},
    ]
    tables["META_DATA_CAPTURE"] = [
        {"name": "PROCESS_0:COMMAND", "value": "python"},
        {"name": "PROCESS_0:ARGUMENT_0", "value": "--user=gwendolyn"},
        {"name": "PROCESS_0:ARGUMENT_1", "value": "argv-planted-5f6a7b"},
        {"name": "PROCESS_0:ENVIRONMENT_VARIABLE", "value": "<redacted>"},
    ]
    tables["TARGET_INFO_SYSTEM_ENV"] = [
        {"name": "DeviceEnvironment", "value": ENVIRONMENT},
        {"name": "Hostname", "value": "alphanode"},
        {"name": "CpuCores", "value": "64"},
    ]
    tables[made_nsys.GPU][0]["uuid"] = "a4cc4c8e-c468-e496-9329-72c1128d6bdd"
    tables[made_nsys.NVTX] += [
        made_nsys.nvtx(59, text="/home/gwendolyn/net/model.py:3"),
        made_nsys.nvtx(59, text="{'mod': 'm', 'op': 'o', 'args': [{'type': 'int', 'value': 3}]}"),
    ]
    del tables["ANALYSIS_FILE"], tables["DIAGNOSTIC_EVENT"]
    tables["PROCESSES"][1]["name"] = "gwendolyns-editor"
    return made_nsys.write(path, tables)


def test_nsys_exports(tmp_path: Path) -> None:
    found = listed(profile(tmp_path / "run.sqlite"))
    assert {key: count for key, (count, _) in found.items()} == {
        ("secrets", "StringIds.value"): 1,
        ("secrets", "TARGET_INFO_SYSTEM_ENV.DeviceEnvironment"): 1,
        ("environment", "StringIds.value"): 3,
        ("environment", "TARGET_INFO_SYSTEM_ENV.DeviceEnvironment"): 3,
        ("hosts", "StringIds.value"): 1,
        ("hosts", "TARGET_INFO_SYSTEM_ENV.Hostname"): 1,
        ("users", "META_DATA_EXPORT.EXPORT_USER"): 1,
        ("paths", "META_DATA_EXPORT.EXPORT_PARAM_INPUT_PATH_ABS"): 1,
        ("source-paths", "NVTX_EVENTS.text"): 1,
        ("kernel-arguments", "NVTX_EVENTS.text"): 1,
        ("device-ids", "TARGET_INFO_GPU.uuid"): 1,
        ("command-lines", "META_DATA_CAPTURE.PROCESS_0:ARGUMENT"): 2,
        ("command-lines", "META_DATA_CAPTURE.PROCESS_0:COMMAND"): 1,
        ("output", "ProcessStreams.contentId"): 1,
        ("processes", "PROCESSES.name"): 2,
    }
    assert found["secrets", "StringIds.value"][1] == "MLFLOW_API_KEY=0a1b2c…"
    assert found["environment", "StringIds.value"][1] == "PATH=/u…"


def test_nvprof_databases(tmp_path: Path) -> None:
    path = tmp_path / "run.nvvp"
    with sqlite3.connect(path) as file:
        file.execute("CREATE TABLE StringTable (_id_ INTEGER PRIMARY KEY, value TEXT)")
        texts = ["_Z4gemmPf", "python t.py --api-key 0a1b2c3d4e5f6a7b8c9d", "resnet50"]
        file.executemany("INSERT INTO StringTable VALUES (?, ?)", enumerate(texts, 1))
        file.execute("CREATE TABLE PLAIN (_id_ INTEGER PRIMARY KEY, number INT)")
    file.close()
    assert listed(path) == {("secrets", "StringTable.value"): (1, "--api-ke…")}


CSV = """\
==123== NVPROF is profiling process 123, command: python train.py argv-planted-5f6a7b
==123== Profiling result:
"Start","Duration","Name"
ms,ms,
0.1,0.2,"[Range start] {'mod': 'm', 'op': 'o', 'args': [{'type': 'int', 'value': 3}]}"
0.1,0.2,"[Range start] step 3"
0.3,0.2,"void gemm<float>(float*, int)"
0.3,0.2,"/home/gwendolyn/data.bin"
"""


@pytest.mark.parametrize("name", ["run.csv", "run.csv.gz"])
def test_texts(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(CSV.encode()) if name.endswith("gz") else CSV.encode())
    assert {key: count for key, (count, _) in listed(path).items()} == {
        ("paths", "lines"): 1,
        ("kernel-arguments", "lines"): 1,
        ("command-lines", "command"): 1,
    }


def test_columns_that_name_hosts(tmp_path: Path) -> None:
    path = tmp_path / "ncu.csv"
    path.write_text('"ID","Process Name","Host Name"\n"0","m2","alphanode"\n"1","m2","127.0.0.1"\n')
    assert listed(path) == {("hosts", "Host Name"): (1, "alp…")}


def test_long_lines_are_searched_piece_by_piece(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    events = [{"name": f"op{number}"} for number in range(1000)]
    path.write_text(json.dumps([*events, {"file": "/home/gwendolyn/x.bin"}]))
    assert listed(path) == {("paths", "lines"): (1, "/home/g…")}


def test_captures(tmp_path: Path) -> None:
    capture = tmp_path / "capture"
    capture.mkdir()
    document = {"host": "alphanode", "env": {"A": "b"}, "command": ["t", "--token", "abcdefghijkl"]}
    (capture / "capture.json").write_text(json.dumps(document))
    (capture / "layers.json").write_text('{"layers": [{"name": "conv1"}]}')
    (capture / "run.nsys-rep").write_bytes(b"QDSS\x00\x01" * 10)
    (capture / "empty.log").touch()
    profile(capture / "timeline.sqlite")
    found = listed(capture)
    assert found["environment", "capture.json: env"][0] == 1
    assert found["hosts", "capture.json: host"] == (1, "alp…")
    assert found["secrets", "capture.json: command"][0] == 1
    assert found["not searched", "run.nsys-rep: run.nsys-rep"][0] == 1
    assert found["users", "timeline.sqlite: META_DATA_EXPORT.EXPORT_USER"][0] == 1


@pytest.mark.slow
def test_archives_leak_what_was_kept(tmp_path: Path) -> None:
    capture = Path(shutil.copytree(SAMPLE, tmp_path / "sample"))
    said = json.loads((capture / "capture.json").read_text())
    said["notice"] = "asked for by gwendolyn (see /home/gwendolyn/todo)"
    (capture / "capture.json").write_text(json.dumps(said))
    database = Database(tmp_path / "x.duckdb")
    database.ingest([capture])
    clean, whole = tmp_path / "clean.zip", tmp_path / "whole"
    create(database, database.trace_ids(), clean, redaction=Redaction())
    assert listed(clean) == {}
    create(database, database.trace_ids(), whole, redaction=parse_keep(["all"]), profiles=True)
    places = {where for _, where in listed(whole)}
    assert "tables: trace.path" in places
    assert [place for place in places if "timeline.sqlite: PROCESSES.name" in place]
    assert [place for place in places if place.endswith("capture.json: notice")]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("empty.csv", b"", "empty file"),
        ("cut.sqlite", b"SQLite format 3\x00" + 100 * b"\x00", "damaged or incomplete"),
        ("cut.csv.gz", gzip.compress(b"x" * 1000)[:20], "cannot be read"),
    ],
    # gzip writes the time: workers must agree on names.
    ids=["empty", "cut", "cut-gzip"],
)
def test_what_cannot_be_read_is_said(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=said):
        leaks(tmp_path / name)
    with pytest.raises(InputError, match="no such file"):
        leaks(tmp_path / "nothing")
