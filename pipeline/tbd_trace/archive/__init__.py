"""Trace archives: traces in a form that is shared, and read where there is no profiler."""

from tbd_trace.archive.storage_backends import is_archive, is_url
from tbd_trace.archive.store import Archive, Several

__all__ = ["Archive", "Several", "is_archive", "is_url"]
