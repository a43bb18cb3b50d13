"""How a package of readers registers itself.

The package ``tbd_trace.sources.<tool>``, or one that the entry-point group ``tbd_trace.sources``
names, has an attribute ``TOOL``. Nothing else in the program lists tools or formats.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tool:
    """A profiler and the file formats that it writes.

    Attributes:
        name: value of ``trace.tool``.
        formats: where each format's :class:`~tbd_trace.sources.base.Source` is, as
            ``module:attribute``, by its name (``trace.format``), in the order of detection.
        accepts: names of the files, as the message about an unsupported file lists them.
        profile_command: the command that records a timeline, in backticks; empty if it records
            none.
        counters_command: the command that counts more than a file of this tool has, in backticks;
            empty if it counts nothing.
        find_private: function ``(path, findings) -> None`` that searches a file for private data,
            as ``module:attribute``; empty for the usual search of SQLite files and text.
    """

    name: str
    formats: Mapping[str, str]
    accepts: str
    profile_command: str = ""
    counters_command: str = ""
    find_private: str = ""
