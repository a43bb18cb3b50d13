"""Tracebacks of KeyboardInterrupt are left out of the output, and nothing else."""

from __future__ import annotations

import pytest

from tbd_collectors.interrupt_filter import InterruptFilter

HEAD = b'Traceback (most recent call last):\n  File "train.py", line 9, in <module>\n    wait()\n'
INTERRUPT = HEAD + b"KeyboardInterrupt\n"
FAILURE = HEAD + b"ValueError: no sample\n"
CHAIN = b"\nDuring handling of the above exception, another exception occurred:\n\n"
RANK = b"".join(b"[rank0]: " + line + b"\n" for line in INTERRUPT.splitlines())
TORCHRUN = HEAD + b"torch.api.SignalException: Process 7 got signal: 2\n"


def alternating(first: bytes, second: bytes) -> bytes:
    lines = zip(first.splitlines(), second.splitlines(), strict=True)
    return b"".join(b"%b\n%b\n" % pair for pair in lines)


@pytest.mark.parametrize("size", [1, 7, 1 << 16])
@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (b"step 1\n" + INTERRUPT + b"saved\n", b"step 1\nsaved\n"),
        (INTERRUPT.replace(b"Interrupt", b"Interrupt: "), b""),
        (FAILURE, FAILURE),
        (INTERRUPT + CHAIN + INTERRUPT + b"saved\n", b"saved\n"),
        (INTERRUPT + CHAIN + FAILURE, CHAIN + FAILURE),
        (FAILURE + CHAIN + INTERRUPT + b"saved\n", FAILURE + b"\nsaved\n"),
        (b"Process SpawnProcess-1:\n" + INTERRUPT, b""),
        (b"Exception ignored in: <f>\n" + INTERRUPT, b""),
        (b"Process SpawnProcess-1:\n" + FAILURE, b"Process SpawnProcess-1:\n" + FAILURE),
        (RANK + b"[rank0]: saved\n", b"[rank0]: saved\n"),
        (TORCHRUN, b""),
        (alternating(INTERRUPT, INTERRUPT), b""),
        (HEAD + b"saved\n" + INTERRUPT[len(HEAD) :], b"saved\n"),
        (HEAD, HEAD),
        (INTERRUPT + b"\xff\x00", b"\xff\x00"),
        (b"KeyboardInterrupt is caught\n", b"KeyboardInterrupt is caught\n"),
    ],
)
def test_what_is_left_out(output: bytes, expected: bytes, size: int) -> None:
    interrupts = InterruptFilter()
    blocks = [output[at : at + size] for at in range(0, len(output), size)]
    shown = b"".join(map(interrupts.left_out, blocks)) + interrupts.rest()
    assert shown == expected


@pytest.mark.parametrize("blocks", [(b"\r 50 %|#| " + INTERRUPT,), (b"\r 50 %|#| ", INTERRUPT)])
def test_a_traceback_after_a_progress_bar(blocks: tuple[bytes, ...]) -> None:
    interrupts = InterruptFilter()
    assert b"".join(map(interrupts.left_out, blocks)) == b"\r 50 %|#| "


@pytest.mark.parametrize(
    "output",
    [b"Tomorrow", b"[1/9] done", b"Process all? [y/n]", b"step 1\n", b"\r 50 %", b"", b" loss"],
)
def test_other_output_passes_at_once(output: bytes) -> None:
    assert InterruptFilter().left_out(output) == output


def test_a_traceback_without_an_end_is_not_held_forever() -> None:
    interrupts = InterruptFilter()
    frames = HEAD + b"    frame()\n" * 200_000
    assert interrupts.left_out(frames) == frames
    assert interrupts.left_out(b"step 1\n") == b"step 1\n"


def test_two_tracebacks_of_which_one_is_a_failure() -> None:
    """Two threads print in turn: every line of the failure is shown."""
    interrupts = InterruptFilter()
    shown = interrupts.left_out(alternating(INTERRUPT, FAILURE) + b"end\n")
    assert shown.endswith(b"    wait()\nValueError: no sample\nend\n")
    assert b"KeyboardInterrupt" not in shown
