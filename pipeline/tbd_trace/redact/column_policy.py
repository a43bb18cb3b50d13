"""The columns of the canonical tables that may hold something private."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import duckdb

from tbd_trace.model.canonical_tables import CanonicalTable
from tbd_trace.redact.text import CANDIDATE
from tbd_trace.sqltext import identifier, string

TREATMENTS: dict[str, dict[str, tuple[str, ...]]] = {
    # Words from a fixed list of the reader, the profiler or CUDA, hashes and versions.
    "fixed": {
        "trace": (
            *("trace_id", "sha256", "format", "tool", "tool_version", "export_version"),
            *("schema_version", "kind", "holds", "lacks", "ingested_by"),
        ),
        "device": ("name", "compute_capability"),
        "memcpy": ("direction", "src_kind", "dst_kind"),
        "memset": ("memory_kind",),
        "memory_event": ("operation", "memory_kind"),
        "synchronization": ("sync_type",),
        "gpu_sample": ("metric", "unit"),
        "kernel_metric": ("tool", "metric", "unit"),
        "api_call": ("api", "name"),
        "nvtx_range": ("kind",),
        "layer_definition": ("precision",),
    },
    # Names of functions: their words are code, and their parameter lists are types.
    "code": {
        "kernel": ("name", "short_name", "mangled_name"),
        "kernel_aggregate": ("name",),
        "kernel_metric": ("kernel_name",),
    },
    # What people and programs say.
    "text": {
        "trace": ("name", "capture_id", "notes"),
        "process": ("name",),
        "thread": ("name",),
        "nvtx_range": ("domain", "text"),
        "nvtx_mark": ("domain", "text"),
        "layer_definition": ("layer", "layer_type"),
        "memory_event": ("name",),
        "kernel_metric": ("text",),
    },
    "file": {"trace": ("path",)},
    "document": {"trace": ("capture",)},
    "device": {"device": ("uuid",)},
}
"""How each column of texts is treated: treatment, table, columns."""


def text_columns(table: CanonicalTable) -> dict[str, str]:
    """Return the columns of a canonical table that may hold something private, and their treatment.

    A column that is not listed in :data:`TREATMENTS` is a ``text``.
    """
    listed = {
        column: treatment
        for treatment, tables in TREATMENTS.items()
        for column in tables.get(table.name, ())
    }
    return {
        column.name: listed.get(column.name, "text")
        for column in table.columns
        if column.type.startswith("VARCHAR")
        and column.name != "trace_id"
        and listed.get(column.name) != "fixed"
    }


def candidates(
    connection: duckdb.DuckDBPyConnection,
    relation: str,
    column: str,
    treatment: str,
    words: Sequence[str] = (),
) -> dict[Any, int]:
    """Return the texts of a column that may hold something private, sorted, with their rows.

    Args:
        connection: where the relation is.
        relation: a SELECT.
        column: its column; lists come back as tuples.
        treatment: one of :data:`TREATMENTS`.
        words: names to look for in texts.
    """
    name = identifier(column)
    matches = f"{name} IS NOT NULL"
    if treatment in ("text", "code"):
        patterns = [r"[\\/]"] if treatment == "code" else [CANDIDATE, *map(re.escape, words)]
        matches = f"regexp_matches({name}::VARCHAR, {string('|'.join(patterns))})"
    rows = connection.execute(
        f"SELECT {name}, count(*) FROM ({relation}) WHERE {matches} GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    return {tuple(text) if isinstance(text, list) else text: number for text, number in rows}
