"""Killed processes leave private files, which the next one removes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tbd_trace.archive.archive_writer import new_archive
from tbd_trace.errors import UsageError
from tbd_trace.runtime import private_files
from tbd_trace.runtime.atomic_write import atomic_write
from tbd_trace.runtime.private_files import (
    private_prefix,
    remove_abandoned,
    shared_place,
    temporary_directory,
)
from tbd_trace.store.staging import private_directory, remove_stale

WRITERS = {
    "file": "from tbd_trace.runtime.atomic_write import atomic_write as write",
    "archive": "from tbd_trace.archive.archive_writer import new_archive as write",
    "trace": "from tbd_trace.store.staging import private_directory as write",
}
CODE = """
import os, sys
from pathlib import Path
{start}
with write(Path(sys.argv[1])) as private:
    if isinstance(private, Path) and not private.is_dir():
        private.write_text("half of it")
    print("begun", flush=True)
    sys.stdin.read()
    os.kill(os.getpid(), 9)
"""


@pytest.fixture(params=WRITERS)
def writer(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has begun to write ``target`` and is killed at the end of its input."""
    code = CODE.format(start=WRITERS[request.param])
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "target")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "begun\n"
        yield process
        process.kill()


def private(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir() if path.name.startswith(".target.")]


def test_files_of_killed_processes_are_removed(
    writer: subprocess.Popen[str], tmp_path: Path
) -> None:
    (tmp_path / ".target.swp").write_text("of an editor")
    for target in ("target", None, "other"):
        remove_abandoned(tmp_path, target)
    assert len(private(tmp_path)) == 2  # it is running
    writer.communicate()
    assert len(private(tmp_path)) == 2
    remove_abandoned(tmp_path, "other")
    assert len(private(tmp_path)) == 2
    remove_abandoned(tmp_path, "target")
    assert private(tmp_path) == [".target.swp"]


def test_every_writer_removes_them(writer: subprocess.Popen[str], tmp_path: Path) -> None:
    writer.communicate()
    (left,) = private(tmp_path)
    file = tmp_path / left
    before = file.read_text() if file.is_file() else None
    for write in (atomic_write, new_archive):
        if before is None:
            file.mkdir(exist_ok=True)
        else:
            file.write_text(before)
        with pytest.raises(UsageError), write(tmp_path / "target"):
            assert left not in private(tmp_path)
            raise UsageError("stop")
    remove_stale(tmp_path)
    assert private(tmp_path) == []


def test_the_names_of_machines_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with private_directory(tmp_path / "target") as here:
        assert here.name.startswith(private_prefix(tmp_path / "target"))
        other = tmp_path / here.name.replace(here.name.split(".")[2], "00000000-1")
        other.mkdir()
        remove_abandoned(tmp_path)
        assert other.exists()


def test_temporary_files_of_killed_processes_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    code = """if True:
        import os
        from tbd_trace.runtime.duckdb_connection import spill_directory
        from tbd_trace.runtime.private_files import temporary_directory
        kept = temporary_directory()
        spill_directory().mkdir()
        os.kill(os.getpid(), 9)"""
    killed = subprocess.run(
        [sys.executable, "-c", code], check=False, env={**os.environ, "TMPDIR": str(tmp_path)}
    )
    assert killed.returncode == -9
    left = sorted(tmp_path.iterdir())
    assert len(left) == 2
    (tmp_path / "tbd-trace-made-by-a-user").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: 12345)  # they belong to another user
        shared_place()
    assert set(left) < set(tmp_path.iterdir())
    private_files._remove_abandoned_once.cache_clear()
    with temporary_directory() as mine:
        private_files._remove_abandoned_once.cache_clear()
        assert shared_place() == tmp_path / "tbd-trace"
        assert {path.name for path in tmp_path.iterdir()} == {
            "tbd-trace-made-by-a-user",
            Path(mine).name,
        }
    private_files._remove_abandoned_once.cache_clear()
