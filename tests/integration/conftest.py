"""One database of real traces, shared by all tests of a session."""

from __future__ import annotations

from pathlib import Path

import pytest

from real_traces import Traces


@pytest.fixture(scope="session")
def traces(session_directory: Path) -> Traces:
    """Return the real traces in a database of their own, which parallel workers share."""
    return Traces(session_directory)
