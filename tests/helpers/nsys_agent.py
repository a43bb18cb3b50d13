"""Running nsys, whose agent may fail."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from tbd_trace.machine import nsys_install

# The agent serves all sessions of a user; one that begins while another ends may lose it.
_FAILURES = (
    *("Local Endpoint is not available", "sem_open", "Connection to the Agent lost"),
    *("End of file", "Connection reset by peer"),
)
_ATTEMPTS = 3

Completed = subprocess.CompletedProcess[str]
Done = TypeVar("Done")


def until_served(once: Callable[[int], Done], said: Callable[[Done], str]) -> Done:
    """Run nsys until the agent does its part, at most three times.

    Args:
        once: runs it; called with the number of the attempt, from 0.
        said: what a run said about its failure.
    """
    for attempt in range(_ATTEMPTS):
        done = once(attempt)
        if not any(failure in said(done) for failure in _FAILURES):
            break
    return done


def collected(collect: Callable[..., Completed], *words: str | Path) -> Completed:
    """Run ``tbd-trace collect`` until the agent does its part.

    Args:
        collect: runs the command with arguments.
        words: the arguments.
    """
    return until_served(
        lambda attempt: collect(*(["--force"] if attempt else []), *words),
        lambda done: done.stderr,
    )


def environment() -> dict[str, str]:
    """Return all variables of nsys; Debian's needs the places of its parts."""
    installed = nsys_install.find()
    assert installed is not None
    return os.environ | installed.environment()


def nsys(words: Sequence[str | Path], folder: Path, variables: Mapping[str, str]) -> Completed:
    """Run nsys until the agent does its part.

    Args:
        words: the arguments; what is written may be there from an attempt before.
        folder: the working directory.
        variables: all variables of the process.
    """

    def once(_: int) -> Completed:
        return subprocess.run(
            ["nsys", *words],
            cwd=folder,
            env=variables,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return until_served(once, lambda done: done.stderr)
