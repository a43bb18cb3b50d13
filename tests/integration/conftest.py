"""One database of real traces, shared by all tests of a session."""

from __future__ import annotations

import pytest
from real_traces import Traces


@pytest.fixture(scope="session")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Traces:
    """Return the real traces in a database of their own, which parallel workers share."""
    base = tmp_path_factory.getbasetemp()
    # pytest-xdist gives each worker a directory inside the session's.
    shared = base.parent if base.name.startswith("popen-") else base
    return Traces(shared)
