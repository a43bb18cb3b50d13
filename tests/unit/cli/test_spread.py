"""How many processes share the files of an ingest."""

from __future__ import annotations

from pathlib import Path

import pytest

from tbd_trace.cli.spread import processes_for
from tbd_trace.runtime import worker_pool

MEGABYTE = 1 << 20


def files(directory: Path, *sizes: int) -> list[Path]:
    """Return sparse files of some sizes."""
    found = [directory / str(number) for number in range(len(sizes))]
    for path, size in zip(found, sizes, strict=True):
        with path.open("wb") as file:
            file.truncate(size)
    return found


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([], None),
        ([50 * MEGABYTE], None),  # nothing to share
        ([MEGABYTE, MEGABYTE], None),  # read before a process has started
        ([2 * MEGABYTE, 2 * MEGABYTE], 2),
        ([MEGABYTE] * 9, 4),
        ([MEGABYTE, 100 * MEGABYTE], None),  # read by several processes itself
    ],
)
def test_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sizes: list[int], expected: int | None
) -> None:
    monkeypatch.setattr(worker_pool, "cpus", lambda: 8)
    assert processes_for(files(tmp_path, *sizes)) == expected


def test_one_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_pool, "cpus", lambda: 1)
    assert processes_for(files(tmp_path, *[MEGABYTE] * 9)) is None


def test_missing_files_are_left_to_their_reader(tmp_path: Path) -> None:
    assert processes_for([tmp_path / "a", tmp_path / "b"]) is None
