"""In-memory DuckDB connections, as tbd-trace needs them."""

from __future__ import annotations

from pathlib import Path

import duckdb

# DuckDB runs an ASOF join whose left side it believes to be small as a nested loop; behind filters
# its estimate is often one row where there are a million.
SORTED_ASOF = "SET asof_loop_join_threshold = 0"


def scratch_connection(spill: Path) -> duckdb.DuckDBPyConnection:
    """Return an in-memory connection.

    Args:
        spill: directory for what does not fit into memory; by default DuckDB would take the
            working directory.
    """
    connection = duckdb.connect(config={"temp_directory": str(spill)})
    connection.execute("SET enable_progress_bar = false")  # it would go to standard output
    connection.execute(SORTED_ASOF)
    return connection
