"""The dump that a rank writes at a set time."""

from __future__ import annotations

import pickle
import threading
import time
from pathlib import Path

import pytest

from tbd_models.instrument import flight_dump


def started(monkeypatch: pytest.MonkeyPatch, path: Path, at: float) -> list[threading.Thread]:
    """Start the thread as a program does, and return the threads that are new."""
    before = set(threading.enumerate())
    monkeypatch.setattr(flight_dump, "_started", threading.Event())
    monkeypatch.setenv(flight_dump.DUMP_VARIABLE, str(path))
    monkeypatch.setenv(flight_dump.AT_VARIABLE, str(at))
    flight_dump.dump_later()
    flight_dump.dump_later()
    return [thread for thread in threading.enumerate() if thread not in before]


def test_dump_is_written_once_at_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flight_dump, "_records", lambda: b"records")
    path, at = tmp_path / "dump_0", time.time() + 0.05
    (thread,) = started(monkeypatch, path, at)
    assert not path.exists()
    thread.join(5)
    assert time.time() >= at
    assert path.read_bytes() == b"records"
    assert sorted(tmp_path.iterdir()) == [path]


def test_program_goes_on_without_a_recorder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> bytes:
        raise AttributeError("_dump_fr_trace")

    monkeypatch.setattr(flight_dump, "_records", missing)
    for thread in started(monkeypatch, tmp_path / "dump_0", 0.0):
        thread.join(5)
    assert not any(tmp_path.iterdir())


def test_nothing_is_started_without_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(flight_dump.DUMP_VARIABLE, raising=False)
    before = threading.active_count()
    flight_dump.dump_later()
    assert threading.active_count() == before


@pytest.mark.slow
def test_records_of_pytorch_are_a_dump() -> None:
    pytest.importorskip("torch")
    assert pickle.loads(flight_dump._records())["version"].startswith("2.")
