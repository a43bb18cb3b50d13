"""Fixtures for all tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from corpus import CORPUS


@pytest.fixture
def corpus() -> Path:
    """Return the directory of real traces, or skip."""
    if not CORPUS.is_dir():
        pytest.skip(f"no real traces at {CORPUS} (set TBD_TRACE_CORPUS)")
    return CORPUS


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """Return an in-memory DuckDB connection."""
    with duckdb.connect() as opened:
        yield opened
