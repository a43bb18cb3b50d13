"""Trace archives: redacted traces for sharing, readable without a profiler."""

from tbd_trace.archive.storage_backends import is_archive, is_url
from tbd_trace.archive.store import Archive, CombinedStore, merged

__all__ = ["Archive", "CombinedStore", "is_archive", "is_url", "merged"]
