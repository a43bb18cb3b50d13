"""How a package of readers registers itself.

The package ``tbd_trace.sources.<tool>``, or one that the entry-point group ``tbd_trace.sources``
names, has an attribute ``TOOL``. Nothing else in the program lists tools or formats.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tool:
    """A profiler and the file formats that it writes."""

    name: str  # value of ``trace.tool``
    # where each format's :class:`~tbd_trace.sources.base.Source` is, as ``module:attribute``, by
    # its name (``trace.format``), in the order of detection
    formats: Mapping[str, str]
    accepts: str  # names of the files, as the message about an unsupported file lists them
    # the command that records a timeline, in backticks; empty if it records none
    profile_command: str = ""
    # the command that counts more than a file of this tool has, in backticks; empty if it counts
    # nothing
    counters_command: str = ""
    # function ``(path, findings) -> None`` that searches a file for private data, as
    # ``module:attribute``; empty for the usual search of SQLite files and text
    find_private: str = ""
