"""Where the real traces and reference tables are, for tests that need them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CORPUS = Path(os.environ.get("TBD_TRACE_CORPUS", ROOT.parent / "shared" / "traces"))
REFERENCE = CORPUS.parent / "reference"

_REASON = f"no real traces at {CORPUS} (set TBD_TRACE_CORPUS)"
needs_corpus = pytest.mark.skipif(not CORPUS.is_dir(), reason=_REASON)


def corpus_files(*patterns: str) -> list[object]:
    """Return the corpus files of some glob patterns as pytest parameters.

    Without the corpus there is one parameter that skips with the reason.
    """
    files = sorted({path for pattern in patterns for path in CORPUS.glob(pattern)})
    if not files:
        return [pytest.param(CORPUS, marks=pytest.mark.skip(reason=_REASON), id="no-corpus")]
    return [pytest.param(path, id=path.name[:60]) for path in files]
