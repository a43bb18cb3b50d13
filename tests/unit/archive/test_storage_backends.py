"""Archives in an object store: written complete or not at all, and read in place."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from corpus import ROOT
from tbd_trace.archive import remote_target
from tbd_trace.cli.main import app
from tbd_trace.store import Database

pytestmark = pytest.mark.slow

server_module = pytest.importorskip("moto.server")
pytest.importorskip("s3fs")

SECRET = "not/a/real+secret0000000000000000000000"
CAPTURE = ROOT / "data" / "samples" / "synthetic_cnn"


@pytest.fixture(scope="module")
def port() -> int:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        found: int = unused.getsockname()[1]
        return found


@pytest.fixture
def service(port: int, elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Run an object store with the empty bucket `traces`."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    server = server_module.ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
    server.start()
    client().create_bucket(Bucket="traces")
    yield server
    for name in objects():
        client().delete_object(Bucket="traces", Key=name)
    client().delete_bucket(Bucket="traces")
    server.stop()


def client() -> Any:
    import boto3

    return boto3.client("s3")


def objects() -> list[str]:
    found = client().list_objects_v2(Bucket="traces").get("Contents", [])
    return sorted(entry["Key"] for entry in found)


def run(*arguments: object) -> Any:
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert SECRET not in result.output
    assert "Traceback" not in result.output
    return result


def fail(code: int, *arguments: object) -> str:
    """Run a command that must fail and return its one line of complaint."""
    result = run(*arguments)
    assert result.exit_code == code, result.output
    (line,) = [text for text in result.stderr.splitlines() if not text.startswith("note: ")]
    return str(line)


@pytest.mark.usefixtures("service")
@pytest.mark.parametrize("name", ["run", "run.zip"])
def test_pack_and_query(sample_database: Database, elsewhere: Path, name: str) -> None:
    url = f"s3://traces/jobs/{name}"
    local = sample_database.path
    created = run("archive", "create", "-o", url, "--db", local)
    assert created.exit_code == 0, created.output
    assert (f"jobs/{name}" if name.endswith(".zip") else f"jobs/{name}/archive.json") in objects()
    question = ("query", "kernel_summary", "--format", "csv", "--db")
    expected = run(*question, local)
    assert expected.exit_code == 0
    assert run(*question, url).stdout == expected.stdout
    # Each process opens the archive itself.
    assert run(*question, url, "--workers", 2).stdout == expected.stdout
    assert run("archive", "verify", url).exit_code == 0
    for file in elsewhere.rglob("*"):
        assert not file.is_file() or SECRET.encode() not in file.read_bytes()
    for key in objects():
        content = client().get_object(Bucket="traces", Key=key)["Body"].read()
        assert SECRET.encode() not in content


@pytest.mark.usefixtures("service")
def test_replace(sample_database: Database) -> None:
    url, local = "s3://traces/run", sample_database.path
    create = ("archive", "create", "-o", url, "--db", local)
    assert run(*create).exit_code == 0
    before = objects()
    client().put_object(Bucket="traces", Key="run/notes.txt", Body=b"the user's own")
    assert "exists; choose another name" in fail(2, *create)
    assert run(*create, "--force", "synthetic_cnn/metrics.csv").exit_code == 0
    after = objects()
    # Files of the old archive go, what is not of an archive stays.
    assert "run/notes.txt" in after
    assert len(after) < len(before)
    assert run("archive", "verify", url).exit_code == 0


def test_service_that_vanishes_while_an_archive_is_written(
    service: Any, port: int, sample_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_remote = remote_target.remote_file_system
    puts = []

    def breaking(url: str) -> tuple[Any, str]:
        filesystem, root = open_remote(url)
        put = filesystem.put_file

        def put_file(source: str, target: str) -> None:
            puts.append(target)
            if len(puts) == 3:
                service.stop()
            put(source, target)

        monkeypatch.setattr(filesystem, "put_file", put_file)
        return filesystem, root

    monkeypatch.setattr(remote_target, "remote_file_system", breaking)
    create = ("archive", "create", "-o", "s3://traces/run", "--db", sample_database.path)
    line = fail(1, *create)
    assert line.startswith("error: s3://traces/run: cannot be written (")
    assert "cannot be read (" in fail(1, "query", "trace_info", "--db", "s3://traces/run")
    assert "cannot be read (" in fail(1, *create)
    service.start()  # with the same objects
    monkeypatch.undo()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    assert not [name for name in objects() if name.endswith(".json")]
    assert "not a trace archive" in fail(1, "query", "trace_info", "--db", "s3://traces/run")


@pytest.mark.usefixtures("service")
def test_places_that_cannot_be_written(sample_database: Database) -> None:
    create = ("archive", "create", "--db", sample_database.path, "-o")
    assert "create the bucket first" in fail(1, *create, "s3://nowhere/run")
    assert "can only be read" in fail(2, *create, "https://example.invalid/run")
    for command in (create, ("query", "trace_info", "--db")):
        line = fail(2, *command, f"s3://key:{SECRET}@traces/run")
        assert "must not hold credentials" in line
    assert "`tbd-trace archive create -o URL`" in fail(
        2, "ingest", CAPTURE, "--db", "s3://traces/run"
    )
