"""Keep profiler files that are opened without ``ingest`` in a cache."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from tbd_trace.errors import UsageError
from tbd_trace.model.canonical_tables import CATALOGUE, clock_tables, gpu_tables
from tbd_trace.query.catalogue import canonical_relations
from tbd_trace.query.header import Query
from tbd_trace.store import Database, identified_files


def cache_database() -> Database:
    """Return the cache of profiler files that were opened without ``ingest``.

    Its directory is ``TBD_TRACE_CACHE``, or ``tbd-trace`` in the user's cache directory.

    Raises:
        UsageError: there is no home directory, and no variable names another directory.
    """
    chosen = os.environ.get("TBD_TRACE_CACHE")
    directory = Path(chosen) if chosen else _user_cache() / "tbd-trace"
    return Database(directory / "cache.duckdb", "TBD_TRACE_CACHE")


def _user_cache() -> Path:
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base)
    try:
        return Path.home() / ".cache"
    except RuntimeError:
        raise UsageError(
            "there is no home directory to keep profiles in; set TBD_TRACE_CACHE to a directory"
        ) from None


def cached(paths: Sequence[Path], question: Query | None) -> tuple[Database, list[str]]:
    """Return the cache that holds some files, and the ids of their traces; ingest new files.

    Args:
        question: the only query; a new file is then ingested only in part.

    Raises:
        InputError: a file has an unsupported format, or is damaged.
    """
    cache = cache_database()
    files = identified_files(paths)
    trace_ids = cache.find(files)
    if trace_ids is None and question is not None and question.partial:
        cache = _cache_of_a_part(cache, question)
        trace_ids = cache.find(files)
    if trace_ids is None:
        cache.ingest_identified(files)
        trace_ids = [file.trace_id for file in files]
    cache.show_names({file.trace_id: file.file.name for file in files})
    return cache, list(dict.fromkeys(trace_ids))


def _cache_of_a_part(cache: Database, question: Query) -> Database:
    # Partly ingested files are cached apart from whole ones. A query about times on the GPU also
    # reads the tables that align the GPU's clock with the host's.
    read = canonical_relations(question) - {CATALOGUE}
    tables = sorted(read | clock_tables() if read.issuperset(gpu_tables()) else read)
    name = "-".join(tables)
    columns = None
    if isinstance(question.partial, list):
        columns = sorted(question.partial)
        name += f"-{hashlib.sha256(' '.join(columns).encode()).hexdigest()[:8]}"
    return Database(cache.path.with_name(f"{name}.duckdb"), "TBD_TRACE_CACHE", tables, columns)
