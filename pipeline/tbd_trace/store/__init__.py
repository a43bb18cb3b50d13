"""The database: Parquet files of the canonical tables of traces, found through one path."""

from tbd_trace.store.base import TraceStore
from tbd_trace.store.database import Database
from tbd_trace.store.identified_file import IngestReport, identified_files

__all__ = ["Database", "IngestReport", "TraceStore", "identified_files"]
