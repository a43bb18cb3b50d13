"""Write a report to a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tbd_trace.errors import UsageError

if TYPE_CHECKING:
    from tbd_trace.store.selection import Selection

_EXTENSIONS = (".html", ".htm")


def write_report(traces: Selection, path: Path, title: str = "") -> Path:
    """Write a report about traces to a file, which is replaced, and return its path.

    Raises:
        CannotAnswerError: there are no traces.
        UsageError: the name lacks the extension of HTML, or the file cannot be written.
    """
    from tbd_trace.analysis.report.sections import report  # noqa: PLC0415 - takes time
    from tbd_trace.present import write  # noqa: PLC0415 - as above

    check_target(path)
    write(path, report(traces, title))
    return path


def check_target(path: Path) -> None:
    """Check the name of a report.

    Raises:
        OSError: the name cannot be looked up.
        UsageError: it lacks the extension of HTML, or its directory is missing.
    """
    if path.is_dir():
        raise UsageError(
            f"{path}: is a directory; name a file in it, such as {path / 'report.html'}"
        )
    if path.exists() and not path.is_file():
        return  # a pipe, /dev/stdout
    if path.suffix.lower() not in _EXTENSIONS:
        raise UsageError(f"{path}: a report is an HTML page; choose a name that ends in .html")
    if not path.parent.is_dir():
        raise UsageError(f"{path}: there is no directory {path.parent}; create it first")
