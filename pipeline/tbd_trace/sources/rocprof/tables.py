"""Find and load the tables of a rocpd database.

Each recording of a database has its own set of tables, ``rocpd_<name>_<uuid>``. Databases also
have views of the plain names, which compute the same rows. Columns are read by name; missing ones
are NULL.
"""

from __future__ import annotations

import duckdb
import pyarrow as pa

from tbd_trace.sqlite_io import SqliteFile
from tbd_trace.sqltext import identifier

PREFIX = "rocpd_"
# Tables of which each recording has at least one.
_STEMS = tuple(PREFIX + name for name in ("metadata", "kernel_dispatch", "region"))

Columns = dict[str, pa.DataType]


def _columns(integers: str, texts: str = "") -> Columns:
    return dict.fromkeys(integers.split(), pa.int64()) | dict.fromkeys(texts.split(), pa.string())


# Older schemas have times and ids in the tables of events, newer ones in those of timestamps and
# tracks.
_EVENT = "id pid tid start end start_id end_id track_id event_id name_id queue_id stream_id "
TABLES: dict[str, Columns] = {
    "metadata": _columns("id", "tag value"),
    "string": _columns("id", "string"),
    "timestamp": _columns("id value"),
    "track": _columns("id pid tid agent_id queue_id stream_id"),
    "info_category": _columns("id", "name"),
    "info_process": _columns("id pid", "command"),
    "info_thread": _columns("id tid", "name"),
    "info_agent": _columns(
        "id type_index absolute_index", "type name product_name model_name extdata"
    ),
    "info_kernel_symbol": _columns(
        "id group_segment_size arch_vgpr_count accum_vgpr_count", "kernel_name display_name"
    ),
    "event": _columns("id category_id stack_id parent_stack_id", "extdata"),
    "region": _columns(_EVENT),
    "sample": _columns(_EVENT + "timestamp timestamp_id"),
    "kernel_dispatch": _columns(
        _EVENT + "agent_id kernel_id private_segment_size group_segment_size workgroup_size_x "
        "workgroup_size_y workgroup_size_z grid_size_x grid_size_y grid_size_z"
    ),
    "memory_copy": _columns(_EVENT + "src_agent_id dst_agent_id size"),
}


def recordings(file: SqliteFile) -> list[str]:
    """Return what follows the names of the tables of each recording, such as ``_<uuid>``."""
    found = {
        name.removeprefix(stem) for name in file.tables for stem in _STEMS if name.startswith(stem)
    }
    return sorted(found - {""}) or sorted(found)


def load(connection: duckdb.DuckDBPyConnection, file: SqliteFile, name: str) -> None:
    """Copy a table of all recordings into the temporary table ``raw_<name>``, with ``part``.

    Raises:
        InputError: the file is damaged.
    """
    table = identifier(f"raw_{name}")
    empty = pa.schema(list(TABLES[name].items())).empty_table()
    connection.register("rocpd_rows", empty)
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE {table} AS SELECT 0::BIGINT AS part, * FROM rocpd_rows"
    )
    for part, suffix in enumerate(recordings(file)):
        with file.batches(PREFIX + name + suffix, TABLES[name]) as reader:
            # Batch by batch: DuckDB would replace an InputError of the stream by its own error.
            for batch in reader:
                connection.register("rocpd_rows", pa.Table.from_batches([batch]))
                connection.execute(f"INSERT INTO {table} SELECT {part}, * FROM rocpd_rows")
    connection.unregister("rocpd_rows")
