"""Read archives of release 0.1.0, whose ranges and marks are in two tables (layout v1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from tbd_trace.model.canonical_tables import CATALOGUE, canonical_tables
from tbd_trace.sqltext import parquet_relation

NAME = "v1"
_ANNOTATION = "annotation"
_RANGES, _MARKS = "nvtx_range", "nvtx_mark"
# Marks had no ids. Theirs begin where no range has one.
_FIRST_MARK = 1 << 62

Files = Callable[[str, Sequence[str]], list[Path]]
"""Returns the Parquet files of a table for some traces."""


def relation(table: str, trace_ids: Sequence[str], files: Files) -> str:
    """Return a SELECT of a canonical table of today, for traces of layout v1."""
    if table == _ANNOTATION:
        return _annotations(files(_RANGES, trace_ids), files(_MARKS, trace_ids))
    paths = files(table, trace_ids)
    if not paths:
        return canonical_tables()[table].empty_select
    return _catalogue(paths) if table == CATALOGUE else parquet_relation(paths)


def _annotations(ranges: Sequence[Path], marks: Sequence[Path]) -> str:
    selects = [canonical_tables()[_ANNOTATION].empty_select]
    if ranges:
        selects.append(
            "SELECT * RENAME (nvtx_range_id AS annotation_id), 'nvtx' AS source "
            f"FROM ({parquet_relation(ranges)})"
        )
    if marks:
        selects.append(
            "SELECT * EXCLUDE (timestamp_ns), timestamp_ns AS start_ns, timestamp_ns AS end_ns, "
            f"{_FIRST_MARK} + row_number() OVER () AS annotation_id, 'nvtx' AS source, "
            f"'mark' AS kind, false AS is_open FROM ({parquet_relation(marks)})"
        )
    return " UNION ALL BY NAME ".join(selects)


def _catalogue(files: Sequence[Path]) -> str:
    old = f"['{_RANGES}', '{_MARKS}']"
    has_annotations = f"list_has_any(holds, {old})"

    def renamed(column: str, condition: str) -> str:
        kept = f"list_filter({column}, lambda name: NOT list_contains({old}, name))"
        added = f"if({condition}, ['{_ANNOTATION}'], [])"
        return f"list_sort(list_concat({kept}, {added})) AS {column}"

    return (
        f"SELECT * REPLACE ({renamed('holds', has_annotations)}, "
        f"{renamed('lacks', f'NOT {has_annotations}')}) FROM ({parquet_relation(files)})"
    )
