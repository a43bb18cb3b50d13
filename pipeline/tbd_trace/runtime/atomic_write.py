"""Write a file that appears complete or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tbd_trace.errors import TbdTraceError


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a path beside the target, and rename it at the end.

    Nothing is left behind after an error.

    Raises:
        TbdTraceError: the file cannot be written.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        if path.is_dir():
            raise TbdTraceError(f"{path}: is a directory; name a file")
        try:
            yield beside
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise TbdTraceError(f"{path}: cannot be written ({error.strerror})") from error
