"""Profiler file formats: one reader per format, recognised by content."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from tbd_trace.errors import InputError
from tbd_trace.sources.base import Source

_SOURCES = {
    "nsys.reader": "NSYS_SQLITE",
    "nvprof.reader": "NVPROF_SQLITE",
    "nsys.report": "NSYS_REPORT",
    "nvprof.csv_reader": "NVPROF_CSV",
    "ncu.reader": "NSIGHT_COMPUTE_CSV",
}
_HEAD_BYTES = 65_536
_LFS_MAGIC = b"version https://git-lfs.github.com/spec/"


def sources() -> Iterator[Source]:
    """Yield the known formats in the order in which they are tried, each imported when it is."""
    for module, source in _SOURCES.items():
        yield getattr(import_module(f"tbd_trace.sources.{module}"), source)


def identify(path: Path) -> Source:
    """Return the format of a file.

    Raises:
        InputError: there is no such file, it cannot be read, or it is no profile.
    """
    head = _head(path)
    for source in sources():
        if source.detect(path, head):
            return source
    from tbd_trace.sources.unknown import what_it_is  # noqa: PLC0415 - known traces need none

    raise InputError(f"{path}: {what_it_is(path, head)}")


def check_readable(path: Path) -> None:
    """Make sure that a path is that of a file with something in it.

    Raises:
        InputError: it is not, or may not be read.
    """
    _head(path)


def _head(path: Path) -> bytes:
    try:
        if path.is_fifo() or path.is_char_device():  # reading might never end
            raise InputError(f"{path}: not a file; write the profile to a file first")
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; check the path") from None
    except IsADirectoryError:
        raise InputError(
            f"{path}: a directory without capture.json; name the profiler file in it"
        ) from None
    except PermissionError:
        raise InputError(f"{path}: no permission to read it; check its owner and mode") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    if not head:
        raise InputError(
            f"{path}: empty file: incomplete, as the profiler, the export or a copy was "
            "interrupted; copy it again, or export the report again "
            "(`nsys export --type sqlite --force-overwrite true REPORT`)"
        )
    if head.startswith(_LFS_MAGIC):
        raise InputError(
            f"{path}: a Git LFS pointer, not the profile; run `git lfs pull` where it came from"
        )
    return head
