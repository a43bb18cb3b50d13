"""The database: one Parquet file per canonical table and trace, found through one path."""

from tbd_trace.store.base import TraceStore
from tbd_trace.store.database import Database, IngestReport, identified_files

__all__ = ["Database", "IngestReport", "TraceStore", "identified_files"]
