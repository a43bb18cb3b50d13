"""Collecting with nsys, whose agent may fail."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

# The agent serves all sessions of a user; one that begins while another ends may lose it.
_FAILURES = (
    *("Local Endpoint is not available", "sem_open", "Connection to the Agent lost"),
    "exit code 1: End of file",
)
ATTEMPTS = 3

Completed = subprocess.CompletedProcess[str]


def agent_failed(message: str) -> bool:
    """Tell whether a message is about the agent."""
    return any(failure in message for failure in _FAILURES)


def retried(collect: Callable[..., Completed], *words: str | Path) -> Completed:
    """Run ``tbd-trace collect`` until the agent does its part.

    Args:
        collect: runs the command with arguments.
        words: the arguments.
    """
    done = collect(*words)
    for _ in range(ATTEMPTS - 1):
        if not agent_failed(done.stderr):
            break
        done = collect("--force", *words)
    return done
