"""Output of a program that goes on to the user, and into a log."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tbd_collectors import program_output
from tbd_collectors.process import Completed, run


def shown(tmp_path: Path, source: str, **options: Any) -> tuple[Completed, bytes, bytes, bytes]:
    """Return how a program ended, what went to its two streams, and its log."""
    with (tmp_path / "out").open("wb") as out, (tmp_path / "err").open("wb") as err:
        done = run(
            [sys.executable, "-c", source],
            environment={},
            directory=tmp_path,
            timeout_s=60,
            log=tmp_path / "log",
            shown=(out.fileno(), err.fileno()),
            **options,
        )
    streams = [(tmp_path / name).read_bytes() for name in ("out", "err", "log")]
    return done, *streams


def test_both_streams_come_through_as_they_are(tmp_path: Path) -> None:
    source = """if True:
        import sys
        sys.stdout.buffer.write(b"a bar\\r 10 %\\r\\xff\\n")
        sys.stdout.flush()
        print("wrong", file=sys.stderr)
    """
    done, out, err, log = shown(tmp_path, source)
    assert (done.returncode, out, err) == (0, b"a bar\r 10 %\r\xff\n", b"wrong\n")
    assert sorted(log.splitlines()) == sorted((out + err).splitlines())
    assert set(done.tail) == {"a bar", " 10 %", "\N{REPLACEMENT CHARACTER}", "wrong"}


def test_the_program_reads_the_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, its = os.pipe()
    os.write(its, b"yes\n")
    os.close(its)
    saved = os.dup(0)
    os.dup2(ours, 0)
    try:
        _, out, _, _ = shown(tmp_path, "print(input())")
    finally:
        os.dup2(saved, 0)
        os.close(saved)
        os.close(ours)
    assert out == b"yes\n"


@pytest.mark.parametrize("size", [1, 7, 1 << 16])
def test_what_profilers_print_is_in_the_log_only(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program_output, "_BLOCK", size)
    source = r"""if True:
        print("USDT:2026-11-30 15:28:47 1:1 Handler.cpp:52] profiler_start")
        print("trained")
        print("Generating '/tmp/nsys-report-5c0f.qdstrm'")
        print("[1/1] [==100%] timeline.nsys-rep")
        print("Generating", end="")
    """
    _, out, _, log = shown(tmp_path, source)
    assert out == b"trained\n"
    assert len(log.splitlines()) == 5
    _, out, _, _ = shown(tmp_path, "print('USDT', end='')")
    assert out == b"USDT"


class AtOnce:
    """The program is not needed any more as soon as it is ready."""

    keeps_running = False

    def __init__(self, ready: Path) -> None:
        self._ready = ready

    def has_begun(self) -> bool:
        return True

    def is_enough(self) -> bool:
        return self._ready.exists()

    def before_stop(self) -> None:
        pass


def test_output_after_the_end_of_the_recording_is_shown(tmp_path: Path) -> None:
    source = """if True:
        import pathlib, time
        pathlib.Path("ready").touch()
        try:
            time.sleep(60)
        finally:
            print("saved")
    """
    _, out, err, log = shown(tmp_path, source, watcher=AtOnce(tmp_path / "ready"))
    assert (out, err) == (b"saved\n", b"")
    assert b"KeyboardInterrupt" in log


def test_a_long_log_lacks_its_middle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_output, "_LONGEST_BEGIN", 1000)
    monkeypatch.setattr(program_output, "_LONGEST_END", 500)
    monkeypatch.setattr(program_output, "_BLOCK", 100)
    source = "import sys; sys.stdout.write('b' * 5000 + 'e' * 500)"
    _, out, _, log = shown(tmp_path, source)
    assert len(out) == 5500
    begin, left_out, end = log.split(b"\n")
    assert (begin, set(end[-500:])) == (b"b" * 1000, {ord("e")})
    count = int(left_out.strip(b"[]").split()[0])
    assert count + len(begin) + len(end) == 5500
    assert 500 <= len(end) < 700


def test_a_reader_that_has_ended_does_not_end_the_program(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = run(
            [sys.executable, "-c", "print('x' * 200_000); print('end')"],
            environment={},
            directory=tmp_path,
            timeout_s=60,
            log=tmp_path / "log",
            shown=(writer, writer),
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.tail[-1]) == (0, "end")
    assert (tmp_path / "log").stat().st_size == 200_005
