"""Describe files that no reader supports, and suggest what to do."""

from __future__ import annotations

import bz2
import lzma
import re
import zlib
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from tbd_trace.sqlite_io import SqliteFile

EXPORT_AGAIN = "`nsys export --type sqlite --force-overwrite true REPORT`"
_COLLECT_TORCH = "record one with `torch.profiler.profile(...)` and `export_chrome_trace(FILE)`"
_UNPACKED_BYTES = 65_536  # enough to recognise the content
_SQLITE_MAGIC_BYTES = 16
_Unpack = Callable[[bytes], bytes]
_PACKED: dict[bytes, tuple[str, _Unpack | None]] = {
    b"\x1f\x8b": ("gzip", lambda b: zlib.decompressobj(31).decompress(b, _UNPACKED_BYTES)),
    b"BZh": ("bzip2", lambda b: bz2.BZ2Decompressor().decompress(b, _UNPACKED_BYTES)),
    b"\xfd7zXZ\x00": ("xz", lambda b: lzma.LZMADecompressor().decompress(b, _UNPACKED_BYTES)),
    b"\x28\xb5\x2f\xfd": ("zstd", None),
}
# Tables by which an incomplete export is recognised.
_NSYS_TABLES = re.compile(
    r"StringIds|ProcessStreams|ThreadNames|PROCESSES|NVTX_EVENTS|EXPORT_META_DATA|META_DATA_\w+|"
    r"ENUM_\w+|TARGET_INFO_\w+|ANALYSIS_\w+|PROFILER_OVERHEAD|CUPTI_ACTIVITY_KIND_\w+"
)
_NSYS_NAME = re.compile(rb"\b(?:StringIds|ProcessStreams|TARGET_INFO_\w+|META_DATA_\w+)\b")
# Texts by their beginnings, the more specific first.
_TEXTS: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r'"schema"\s*:\s*"[^"]*(?:chakra|\d)[^"]*".*"nodes"\s*:', re.DOTALL),
        "an execution trace (PyTorch, Chakra), which has no kernel times; ingest the trace of "
        f"torch.profiler beside it, or {_COLLECT_TORCH}",
    ),
    (
        re.compile(r'^\s*\{\s*"(?:segments|device_traces)"\s*:\s*\['),
        "a memory snapshot of PyTorch as JSON; ingest the pickle that "
        "`torch.cuda.memory._dump_snapshot(FILE)` writes",
    ),
    (
        re.compile(r"^\s*<(?:!doctype html|html)\b", re.IGNORECASE),
        "a web page, not a profile; download the file itself",
    ),
    (
        re.compile(r"^version https://git-lfs\.github\.com/spec/"),
        "a Git LFS pointer, not the profile; run `git lfs pull` where it came from",
    ),
    (
        re.compile(r'"traceEvents"\s*:|^\s*\[\s*\{[^{}]*"ph"\s*:'),
        "a trace in Chrome's JSON format without events of torch.profiler, which tbd-trace "
        f"cannot read; {_COLLECT_TORCH}",
    ),
    (
        re.compile(r'^\s*\{.*"(?:deviceProperties|schemaVersion)"\s*:', re.DOTALL),
        f"a PyTorch trace that ends before its events; copy it again, or {_COLLECT_TORCH}",
    ),
    (
        re.compile(
            r'^"?(?:Time \(%\)|Time\(%\)|Start \(ns\))"?,"?[A-Z][^,]*\((?:ns|us)\)', re.MULTILINE
        ),
        "aggregates printed by `nsys stats`; ingest the report or its SQLite export instead",
    ),
)


def what_it_is(path: Path, head: bytes, accepted: Sequence[str]) -> str:
    """Return the problem and the action of an error message about an unsupported file.

    Args:
        head: its first bytes, at least one.
        accepted: what each tool's reader accepts, for the action.

    Raises:
        InputError: the file is a damaged SQLite file.
    """
    if SqliteFile.has_magic(head):
        return _sqlite(path, accepted)
    if not head[:_SQLITE_MAGIC_BYTES].strip(b"\x00"):
        return _zeros(head)
    for magic, (program, unpack) in _PACKED.items():
        if head.startswith(magic):
            return _packed(program, unpack, head)
    return _content(path, head) or f"unsupported file format; {_expected(accepted)}"


def _expected(accepted: Sequence[str]) -> str:
    *others, last = accepted
    return f"expected {', '.join(others)} or {last}"


def _sqlite(path: Path, accepted: Sequence[str]) -> str:
    with SqliteFile(path) as file:  # raises InputError for a damaged file
        tables = sorted(file.tables)
    return _database(tables, accepted)


def _database(tables: Collection[str], accepted: Sequence[str]) -> str:
    if not tables:
        return (
            "incomplete export: a SQLite database without tables; export the report again, "
            f"{EXPORT_AGAIN}"
        )
    first = sorted(tables)
    shown = ", ".join(first[:3]) + (", …" if len(first) > 3 else "")
    if "StringTable" in tables:
        return (
            f"an incomplete database of nvprof (tables: {shown}); copy it again, or profile again "
            "with `nvprof -o FILE` and wait for its end"
        )
    if any(map(_NSYS_TABLES.fullmatch, tables)):
        return (
            f"an incomplete export of Nsight Systems (tables: {shown}): it was interrupted, or "
            "nsys could not read the report; export it again with the nsys that made the report "
            f"or a newer one, {EXPORT_AGAIN}"
        )
    if any(name.startswith("read_only_") for name in tables) and "aggregations" in tables:
        return (
            "a DLProf database, which contains only aggregates; ingest the profile that DLProf "
            "wrote beside it (nsys_profile.sqlite, .qdrep or .nsys-rep)"
        )
    if {"rocpd_api", "rocpd_op"} <= set(tables):
        return (
            "a database of RPD (rocmProfileData), which tbd-trace cannot read; record the program "
            "with `rocprofv3 --sys-trace`"
        )
    return f"a SQLite database but not a known profile (tables: {shown}); {_expected(accepted)}"


def _zeros(head: bytes) -> str:
    # SQLite writes the header of a new database last.
    if not head.strip(b"\x00"):
        return "contains only zeros: full disk or interrupted copy; copy it again"
    if _NSYS_NAME.search(head) or b"CREATE TABLE" in head:
        return (
            "incomplete SQLite export: zeros in the header, interrupted export or copy; copy it "
            f"again or export the report again, {EXPORT_AGAIN}"
        )
    return (
        "begins with zeros: writing or copying it was interrupted; copy it again, or export the "
        f"report again, {EXPORT_AGAIN}"
    )


def _packed(program: str, unpack: _Unpack | None, head: bytes) -> str:
    # If the content is recognised as unsupported too, unpacking would not help.
    try:
        content = unpack(head) if unpack else b""
    except (zlib.error, OSError, lzma.LZMAError, ValueError):
        content = b""
    inside = _content(Path(), content)
    return (
        f"compressed with {program}: {inside}"
        if inside
        else (f"compressed with {program}; unpack it first")
    )


def _content(path: Path, head: bytes) -> str | None:
    if head.startswith(b"PK\x03\x04"):
        return "a ZIP archive; unpack it first"
    if head.startswith(b"NVR\x00"):
        return (
            "an Nsight Compute report, which only ncu can read; "
            "run `ncu --import FILE --csv --page raw` and ingest its output"
        )
    if path.suffix.lower() == ".nvvp" or b"com.nvidia.viper" in head:
        return (
            "a session of the Visual Profiler, which only that program can read; "
            "ingest the file that nvprof wrote, or profile again with `nvprof -o FILE`"
        )
    text = head.decode("utf-8", "replace")
    return next((what for pattern, what in _TEXTS if pattern.search(text)), None)
