"""Fixtures for all tests."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail tests of the real profilers that skip for want of one where it must be there."""
    report = yield
    if (
        report.skipped
        and "TBD_TRACE_TOOLS_REQUIRED" in os.environ
        and item.get_closest_marker("tool")
        and "not installed" in str(report.longrepr)
    ):
        report.outcome = "failed"
    return report
