"""Write a file that appears complete or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tbd_trace.errors import TbdTraceError
from tbd_trace.runtime.private_files import private_file, remove_abandoned


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a path beside the target, and rename it at the end.

    Nothing is left behind after an error; what a killed process left for the target is removed.

    Raises:
        TbdTraceError: the file cannot be written.
    """
    beside = private_file(path)
    try:
        if path.is_dir():
            raise TbdTraceError(f"{path}: is a directory; name a file")
        remove_abandoned(path.parent, path.name)
        try:
            yield beside
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise TbdTraceError(f"{path}: cannot be written ({error.strerror})") from error
