"""Shared helpers: where the real traces are, and a DuckDB connection."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

ROOT = Path(__file__).resolve().parents[1]
CORPUS = Path(os.environ.get("TBD_TRACE_CORPUS", ROOT.parent / "shared" / "traces"))
REFERENCE = CORPUS.parent / "reference"

needs_corpus = pytest.mark.skipif(
    not CORPUS.is_dir(), reason=f"no real traces at {CORPUS} (set TBD_TRACE_CORPUS)"
)


def corpus_files(*patterns: str) -> list[object]:
    """Return the corpus files of some glob patterns as pytest parameters.

    Without the corpus there is one parameter that skips with the reason.
    """
    files = sorted({path for pattern in patterns for path in CORPUS.glob(pattern)})
    if not files:
        reason = f"no real traces at {CORPUS} (set TBD_TRACE_CORPUS)"
        return [pytest.param(CORPUS, marks=pytest.mark.skip(reason=reason), id="no-corpus")]
    return [pytest.param(path, id=path.name[:60]) for path in files]


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
