"""One database of real traces, shared by all tests of a session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from real_traces import Traces


@pytest.fixture(scope="session")
def traces(session_directory: Path) -> Iterator[Traces]:
    """Return the real traces in a database of their own, which parallel workers share."""
    found = Traces(session_directory)
    yield found
    found.close()
