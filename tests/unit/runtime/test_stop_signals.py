"""Signals that ask tbd-trace to end, in a process of their own."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

PROGRAM = """
import sys
from tbd_trace.runtime import stop_signals
stop_signals.raise_on_signals()
try:
    print("ready", flush=True)
    sys.stdin.readline()
except KeyboardInterrupt as interrupt:
    print(stop_signals.cause(interrupt), stop_signals.is_interrupted())
    assert stop_signals.exit_code() == stop_signals.exit_code(interrupt)
    sys.exit(stop_signals.exit_code(interrupt))
"""


def ended(number: signal.Signals, *words: str) -> tuple[int, str]:
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        said, _ = process.communicate("go on\n", timeout=60)
    return process.returncode, said


@pytest.mark.parametrize(
    ("number", "cause"),
    [(signal.SIGINT, "Ctrl-C"), (signal.SIGTERM, "SIGTERM"), (signal.SIGHUP, "SIGHUP")],
)
def test_the_exit_code_is_that_of_the_signal(number: signal.Signals, cause: str) -> None:
    assert ended(number, sys.executable, "-c", PROGRAM) == (128 + number, f"{cause} True\n")


def test_nohup_stays_in_effect() -> None:
    assert ended(signal.SIGHUP, "nohup", sys.executable, "-c", PROGRAM) == (0, "")


SAVING = """
import time
from tbd_trace.runtime import stop_signals
stop_signals.raise_on_signals()
said = []

def wait(signals):
    print("ready", flush=True)
    while stop_signals.count() < signals:
        time.sleep(0.01)

try:
    with stop_signals.saving_records():
        for signals in range(1, 5):
            try:
                wait(signals)
                said.append("passed")
            except KeyboardInterrupt:
                said.append("interrupted")
    wait(5)
except KeyboardInterrupt:
    print(*said, flush=True)
"""


def test_the_second_signal_lets_records_be_saved() -> None:
    words = [sys.executable, "-c", SAVING]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(5):
            assert process.stdout.readline() == "ready\n"
            process.send_signal(signal.SIGINT)
        assert process.stdout.read() == "interrupted passed interrupted interrupted\n"
