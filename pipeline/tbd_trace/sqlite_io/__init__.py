"""Read SQLite files, large tables directly from their pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tbd_trace.sqlite_io.errors import UnsupportedLayout

__all__ = ["SqliteFile", "UnsupportedLayout"]

if TYPE_CHECKING:
    from tbd_trace.sqlite_io.sqlite_file import SqliteFile
else:

    def __getattr__(name: str) -> Any:
        # Loaded on first access (PEP 562): pyarrow takes 0.2 s to import.
        if name != "SqliteFile":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from tbd_trace.sqlite_io.sqlite_file import SqliteFile  # noqa: PLC0415

        return SqliteFile
