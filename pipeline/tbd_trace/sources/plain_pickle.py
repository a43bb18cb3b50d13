"""Load a pickle of plain data without running anything that it names."""

from __future__ import annotations

import gc
import gzip
import pickle
import zlib
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, cast

from tbd_trace.errors import InputError

GZIP_MAGIC = b"\x1f\x8b"
_PROTOCOLS = (2, 3, 4, 5)
_HEAD_BYTES = 1 << 16
# All that the C unpickler raises for damaged data.
_DAMAGE = (
    pickle.UnpicklingError,
    EOFError,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    OverflowError,
    MemoryError,
    RecursionError,
    ImportError,
)


class NamesCodeError(InputError):
    """A pickle names a class, a function or a persistent object; nothing was run."""


class _Refused(Exception):
    """The pickle names a class, a function or a persistent object."""


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> NoReturn:
        raise _Refused(f"{module_name}.{global_name}")

    def persistent_load(self, pid: object) -> NoReturn:
        raise _Refused("a persistent object")


def is_pickle(head: bytes) -> bool:
    """Return True if the first bytes are those of a pickle of protocol 2 or later."""
    return len(head) > 1 and head[0] == pickle.PROTO[0] and head[1] in _PROTOCOLS


def unpacked_head(head: bytes) -> bytes:
    """Return the first bytes of a file, decompressed if it is a gzip file."""
    if not head.startswith(GZIP_MAGIC):
        return head
    try:
        return zlib.decompressobj(31).decompress(head, _HEAD_BYTES)
    except zlib.error:
        return b""


def load(path: Path, kind: str, again: str) -> Any:
    """Return the object in a pickle or gzipped pickle: dicts, lists, tuples, numbers and text.

    Args:
        kind: what the file should be, such as ``a memory snapshot``, for messages.
        again: how to write the file again, for messages.

    Raises:
        InputError: the file is damaged.
        NamesCodeError: it names a class, function or persistent object. Nothing that it names is
            imported or called.
    """
    collects = gc.isenabled()
    gc.disable()  # millions of new dicts would be traversed again and again
    try:
        with path.open("rb") as raw:
            is_packed = raw.read(2) == GZIP_MAGIC
            raw.seek(0)
            file = cast(BinaryIO, gzip.GzipFile(fileobj=raw)) if is_packed else raw
            return _PlainUnpickler(file).load()
    except _Refused as error:
        raise NamesCodeError(
            f"{path}: it asks to run {error}; {kind} is plain data. Nothing was run"
        ) from None
    except (zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path}: damaged gzip file ({error}); copy it again") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except _DAMAGE as error:
        raise InputError(
            f"{path}: not a complete pickle ({_said(error)}); copy it again, or {again}"
        ) from None
    finally:
        if collects:
            gc.enable()


def _said(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), "")[:80] or type(error).__name__
