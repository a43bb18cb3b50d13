"""Profiler file formats: one reader per format, recognised by content."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from tbd_trace.errors import InputError
from tbd_trace.sources.base import Source, TraceDescription, TraceReader
from tbd_trace.sources.sqlite_header import SQLITE_MAGIC

__all__ = ["Source", "TraceDescription", "TraceReader", "check_readable", "identify", "sources"]

_SOURCES = {
    "nsys": "NSYS_SQLITE",
    "nvprof": "NVPROF_SQLITE",
    "nsys_report": "NSYS_REPORT",
    "nvprof_csv": "NVPROF_CSV",
    "nsight_compute": "NSIGHT_COMPUTE_CSV",
}
_HEAD_BYTES = 65_536
_LFS_MAGIC = b"version https://git-lfs.github.com/spec/"
_UNREADABLE = {  # what files that are often mistaken for a profile begin with, and what to do
    b"\x1f\x8b": "compressed with gzip; unpack it first",
    b"BZh": "compressed with bzip2; unpack it first",
    b"\xfd7zXZ\x00": "compressed with xz; unpack it first",
    b"\x28\xb5\x2f\xfd": "compressed with zstd; unpack it first",
    b"PK\x03\x04": "a ZIP archive; unpack it first",
    b"NVR\x00": (
        "an Nsight Compute report, which only ncu can read; "
        "run `ncu --import FILE --csv --page raw` and ingest what it prints"
    ),
}
_ACCEPTED = (
    "expected a Nsight Systems report or SQLite export, an nvprof/NVVP database, "
    "nvprof CSV or Nsight Compute CSV"
)


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
    raise InputError(f"{path}: {_what_it_is(path, head)}")


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
        raise InputError(f"{path}: empty file; the profiler or a copy was interrupted, redo it")
    if head.startswith(_LFS_MAGIC):
        raise InputError(
            f"{path}: a Git LFS pointer, not the profile; run `git lfs pull` where it came from"
        )
    return head


def _what_it_is(path: Path, head: bytes) -> str:
    if head.startswith(SQLITE_MAGIC):
        from tbd_trace.sources.sqlite import SqliteFile  # noqa: PLC0415 - known traces need none

        with SqliteFile(path) as file:  # a damaged file says so here
            tables = sorted(file.tables)
        if not tables:
            return "a SQLite database without tables; export the profile again"
        shown = ", ".join(tables[:3]) + (", …" if len(tables) > 3 else "")
        return f"SQLite, but no profile that tbd-trace knows (tables: {shown}); {_ACCEPTED}"
    if not head.strip(b"\x00"):
        return "holds only zeros; the disk was full or a copy was interrupted, copy it again"
    for magic, what in _UNREADABLE.items():
        if head.startswith(magic):
            return what
    return f"not a profile that tbd-trace knows; {_ACCEPTED}"
