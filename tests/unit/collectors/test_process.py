"""Programs under supervision, with small Python programs in their place."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from processes import is_running
from tbd_collectors import left_overs, program_stop
from tbd_collectors.process import CollectionError, Completed, run
from tbd_collectors.program_output import LoggedOutput
from tbd_collectors.program_stop import Stopping
from tbd_trace.errors import TbdTraceError

# Says its process id, then lives for a minute, deaf to what is named.
STUBBORN = """
import os, signal, sys, time
for name in sys.argv[1:]:
    signal.signal(getattr(signal, name), signal.SIG_IGN)
print("pid", os.getpid(), flush=True)
time.sleep(60)
"""

# Starts a stubborn child in a session of its own, whose parent dies at once.
WITH_DAEMON = (
    """
import os, signal, subprocess, sys, time
if os.fork() == 0:
    os.setsid()
    subprocess.Popen([sys.executable, "-c", sys.argv[1], "SIGINT", "SIGTERM"])
    os._exit(0)
os.wait()
del sys.argv[1]
"""
    + STUBBORN
)


def python(source: str, *arguments: str) -> list[str]:
    return [sys.executable, "-u", "-c", textwrap.dedent(source), *arguments]


def ids(lines: list[str]) -> list[int]:
    return [int(line.split()[1]) for line in lines if line.startswith("pid ")]


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., Completed]:
    def started(argv: list[str], **options: object) -> Completed:
        settings: dict[str, object] = {
            "environment": {}, "directory": tmp_path, "timeout_s": 30, "log": tmp_path / "log",
        }  # fmt: skip
        return run(argv, **{**settings, **options})  # type: ignore[arg-type]

    return started


def test_output_and_end(start: Callable[..., Completed], tmp_path: Path) -> None:
    seen: list[str] = []
    source = """
        import os, sys
        print("first", os.environ["GIVEN"], os.getcwd())
        print("second", file=sys.stderr)
        print()
        print("a bar [1/1] [==40%    ] r", end="\\r")
        sys.stdout.buffer.write(b"not \\xff text")
        sys.exit(3)
    """
    done = start(python(source), environment={"GIVEN": "value"}, on_line=seen.append)
    first = f"first value {tmp_path}"
    assert seen == [
        first,
        "second",
        "a bar [1/1] [==40%    ] r",
        "not \N{REPLACEMENT CHARACTER} text",
    ]
    assert done.tail == (first, "second", "not \N{REPLACEMENT CHARACTER} text")
    assert (done.returncode, done.timed_out) == (3, False)
    assert 0 < done.seconds < 20
    raw = (tmp_path / "log").read_bytes()
    assert raw == first.encode() + b"\nsecond\n\na bar [1/1] [==40%    ] r\rnot \xff text"
    with pytest.raises(
        CollectionError, match=r"^this failed with exit code 3: first .*; not . text$"
    ):
        done.require_success("this")


def test_lines_come_while_the_program_runs(start: Callable[..., Completed]) -> None:
    times: list[float] = []
    source = "import time\nprint('one')\ntime.sleep(1)\nprint('two')"
    start(python(source), on_line=lambda _: times.append(time.monotonic()))
    assert times[1] - times[0] > 0.5


def test_only_the_end_is_kept(start: Callable[..., Completed]) -> None:
    done = start(python("for number in range(1000): print(number)"))
    assert done.tail == tuple(map(str, range(960, 1000)))
    done.require_success("this")


@pytest.mark.parametrize(
    ("change", "message", "code"),
    [
        ({"argv": ["no-such-profiler"]}, r"^no-such-profiler: cannot be run \(No such file", 127),
        ({"argv": ["/"]}, r"^/: cannot be run \(Permission denied\)", 126),
        ({"directory": Path("/no/where")}, r"^/no/where: no such directory to run true in", 1),
        ({"log": Path("/no/where/log")}, r"^/no/where/log: cannot be written \(No such file", 1),
    ],
)
def test_what_cannot_be_run(
    start: Callable[..., Completed], change: dict[str, object], message: str, code: int
) -> None:
    with pytest.raises(TbdTraceError, match=message) as caught:
        start(**{"argv": ["true"], **change})
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == code


@pytest.mark.slow
def test_time_up_leaves_nothing_behind(
    start: Callable[..., Completed], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program_stop, "_TERMINATE_S", 0.5)
    monkeypatch.setattr(
        left_overs, "_LEFT_OVER_STEPS", ((signal.SIGTERM, 0.3), (signal.SIGKILL, 5.0))
    )
    bystander = subprocess.Popen(
        python(STUBBORN),
        env={**os.environ, left_overs.MARKER: "another run"},
        stdout=subprocess.PIPE,
    )
    try:
        done = start(
            python(WITH_DAEMON, STUBBORN, "SIGINT", "SIGTERM"), timeout_s=2, stopping=Stopping(0.5)
        )
        assert done.timed_out
        assert done.returncode == -signal.SIGKILL
        assert 3 <= done.seconds < 15
        found = ids(list(done.tail))
        assert len(set(found)) == 2
        assert [number for number in found if is_running(number)] == []
        assert is_running(bystander.pid)
    finally:
        bystander.kill()
        bystander.communicate()
    with pytest.raises(CollectionError, match=r"^this was stopped after \d+ s; allow more time"):
        done.require_success("this")


def test_left_over_of_a_program_that_ends_by_itself(
    start: Callable[..., Completed], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(left_overs, "_LEFT_OVER_STEPS", ((signal.SIGKILL, 5.0),))
    source = """
        import subprocess, sys, time
        subprocess.Popen([sys.executable, "-c", sys.argv[1]], start_new_session=True)
        time.sleep(1)
    """
    done = start(python(source, STUBBORN))
    assert (done.returncode, done.timed_out) == (0, False)
    (left,) = ids(list(done.tail))
    assert not is_running(left)


def test_sigint_comes_first(start: Callable[..., Completed], tmp_path: Path) -> None:
    source = """
        import pathlib, time
        try:
            time.sleep(60)
        except KeyboardInterrupt:
            time.sleep(0.5)
            pathlib.Path("report").write_text("whole")
    """
    done = start(python(source), timeout_s=1)
    assert done.timed_out
    assert done.returncode == 0
    assert (tmp_path / "report").read_text() == "whole"


# Ignores SIGINT, and needs 1 s after SIGTERM to write its report.
SLOW_TO_END = """
import pathlib, signal, sys, time
def end(*_):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(1)
    pathlib.Path(sys.argv[1]).write_text("whole")
    sys.exit(0)
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGTERM, end)
print("ready", flush=True)
time.sleep(60)
"""


def test_time_to_end_between_sigterm_and_sigkill(
    start: Callable[..., Completed], tmp_path: Path
) -> None:
    done = start(python(SLOW_TO_END, "report"), timeout_s=1, stopping=Stopping(0.2))
    assert (done.timed_out, done.returncode) == (True, 0)
    assert (tmp_path / "report").read_text() == "whole"


def test_a_left_over_has_time_to_end_between_sigterm_and_sigkill(
    start: Callable[..., Completed], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_wait = ((None, 0.0), *left_overs._LEFT_OVER_STEPS[1:])
    monkeypatch.setattr(left_overs, "_LEFT_OVER_STEPS", no_wait)
    source = """
        import subprocess, sys
        left = subprocess.Popen([sys.executable, "-c", *sys.argv[1:]], stdout=subprocess.PIPE,
                                start_new_session=True)
        left.stdout.readline()
    """
    assert start(python(source, SLOW_TO_END, "report")).returncode == 0
    assert (tmp_path / "report").read_text() == "whole"


def test_the_last_three_lines_are_the_last_words(start: Callable[..., Completed]) -> None:
    done = start(python("for number in range(5): print('line', number)"))
    assert done.last_words() == "line 2; line 3; line 4"
    assert start(python("")).last_words() == "no output"


def test_ended_by_a_signal(start: Callable[..., Completed]) -> None:
    done = start(python("import os; print('bad'); os.abort()"))
    with pytest.raises(CollectionError, match=r"^this was ended by SIGABRT \(bad\)$"):
        done.require_success("this")


def test_error_of_the_observer_ends_the_program(start: Callable[..., Completed]) -> None:
    seen: list[str] = []

    def observe(line: str) -> None:
        seen.append(line)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        start(python(STUBBORN), on_line=observe)
    (process_id,) = ids(seen)
    assert not is_running(process_id)


def test_interrupt(tmp_path: Path) -> None:
    """Ctrl-C reaches this program alone: the other one is in a session of its own."""
    source = f"""
        import pathlib, sys
        from tbd_collectors.process import run
        here = pathlib.Path({str(tmp_path)!r})
        try:
            run([sys.executable, "-c", sys.argv[1]], environment={{}}, timeout_s=60,
                directory=here, log=here / "log", on_line=print)
        except KeyboardInterrupt:
            print("interrupted")
    """
    paths = os.pathsep.join(path for path in sys.path if path)
    outer = subprocess.Popen(
        python(source, STUBBORN),
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    )
    assert outer.stdout is not None
    (process_id,) = ids([outer.stdout.readline()])
    outer.send_signal(signal.SIGINT)
    rest, _ = outer.communicate(timeout=30)
    assert rest.splitlines()[-1] == "interrupted"
    assert outer.returncode == 0
    assert not is_running(process_id)


@given(
    st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r", b"\r\n", b" ", "\N{SNOWMAN}".encode()])),
    st.integers(1, 5),
)
def test_lines_do_not_depend_on_how_they_arrive(pieces: list[bytes], step: int) -> None:
    whole = b"".join(pieces)
    seen: list[str] = []
    with (
        tempfile.NamedTemporaryFile() as writer,
        Path(writer.name).open("rb") as reader,
    ):
        output = LoggedOutput(writer, reader, seen.append)
        for start_at in range(0, len(whole), step):
            writer.write(whole[start_at : start_at + step])
            writer.flush()
            output.forward()
        output.forward(to_the_end=True)
    expected = [line.decode().rstrip() for line in whole.splitlines()]
    assert seen == [line for line in expected if line]
