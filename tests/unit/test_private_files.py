"""Killed processes leave private files, which the next one removes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tbd_trace.archive.archive_writer import new_archive
from tbd_trace.errors import UsageError
from tbd_trace.runtime.atomic_write import atomic_write
from tbd_trace.runtime.private_files import private_prefix, remove_abandoned
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
