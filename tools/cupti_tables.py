"""Write data/cupti_callbacks.csv and data/nvprof_metrics.csv from a CUPTI library.

An nvprof database identifies API calls, metrics and events by number. CUPTI translates the numbers
to names, without a GPU:

    python tools/cupti_tables.py libcupti.so.11.8 libcupti.so.12

CUPTI never reuses a number, but newer versions drop old events and older ones lack new functions,
so the tables merge several libraries. The tables in this repository come from CUPTI 11.8 (Debian's
libcupti11.8) and 12.9 (PyPI's nvidia-cuda-cupti-cu12), the last major version with the metric API.
"""

from __future__ import annotations

import argparse
import csv
import ctypes
import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

DATA = Path(__file__).resolve().parents[1] / "data"

DOMAINS = {"driver": 1, "runtime": 2}  # CUpti_CallbackDomain
LARGEST_CALLBACK = 4096
NAME, VALUE_KIND = 0, 4  # CUpti_MetricAttribute; CUpti_EventAttribute has its name at 0, too
TEXT_BYTES = 4096

# CUpti_MetricValueKind: our name, and the unit if the kind determines it.
KINDS: dict[int, tuple[str, str]] = {
    0: ("double", "ratio"),
    1: ("uint64", "count"),
    2: ("percent", "%"),
    3: ("throughput", "byte/s"),
    4: ("int64", "count"),
    5: ("level", "level"),
}
# Integer metrics whose CUPTI description says bytes.
BYTES = re.compile(r"_bytes$|^(nvlink|pcie)_.*data_(received|transmitted)$")
# nvprof prints cudaMemcpyAsync_ptsz_v7000 as cudaMemcpyAsync: without the suffixes for programs
# with a default stream per thread and for the version of the function.
VARIANT = re.compile(r"(_v\d+|_ptds|_ptsz)+$")

Row = tuple[str | int, ...]


def callbacks(library: ctypes.CDLL) -> Iterator[Row]:
    """Yield (domain, cbid, name without variant and version) of each API function."""
    for domain, number in sorted(DOMAINS.items()):
        for cbid in range(1, LARGEST_CALLBACK):
            name = ctypes.c_char_p()
            status = library.cuptiGetCallbackName(number, cbid, ctypes.byref(name))
            if status == 0 and name.value:
                yield domain, cbid, VARIANT.sub("", name.value.decode())


def counters(library: ctypes.CDLL) -> Iterator[Row]:
    """Yield (record, id, name, kind, unit) of each metric and event of all architectures."""
    for metric in numbers(library.cuptiGetNumMetrics, library.cuptiEnumMetrics):
        name = text(library.cuptiMetricGetAttribute, metric)
        kind, unit = KINDS[number(library.cuptiMetricGetAttribute, metric, VALUE_KIND)]
        is_bytes = kind == "uint64" and BYTES.search(name)
        yield "metric", metric, name, kind, "byte" if is_bytes else unit
    for event in sorted(set(events(library))):
        yield "event", event, text(library.cuptiEventGetAttribute, event), "uint64", "count"


def events(library: ctypes.CDLL) -> Iterator[int]:
    """Yield the ids of all events; an event may be in several domains."""
    domains = numbers(library.cuptiGetNumEventDomains, library.cuptiEnumEventDomains)
    for domain in domains:

        def count(total: object, domain: int = domain) -> int:
            return int(library.cuptiEventDomainGetNumEvents(domain, total))

        def enumerate_ids(size: object, ids: object, domain: int = domain) -> int:
            return int(library.cuptiEventDomainEnumEvents(domain, size, ids))

        yield from numbers(count, enumerate_ids)


def numbers(count: Callable[..., int], enumerate_ids: Callable[..., int]) -> list[int]:
    """Return the ids from a pair of CUPTI functions that count and enumerate."""
    total = ctypes.c_uint32()
    check(count(ctypes.byref(total)))
    ids = (ctypes.c_uint32 * max(total.value, 1))()
    size = ctypes.c_size_t(4 * total.value)
    check(enumerate_ids(ctypes.byref(size), ids))
    return sorted(ids[: size.value // 4])


def text(attribute: Callable[..., int], identity: int) -> str:
    """Return the name of a metric or event."""
    buffer = ctypes.create_string_buffer(TEXT_BYTES)
    check(attribute(identity, NAME, ctypes.byref(ctypes.c_size_t(TEXT_BYTES)), buffer))
    return buffer.value.decode()


def number(attribute: Callable[..., int], identity: int, which: int) -> int:
    """Return a numeric attribute of a metric."""
    value = ctypes.c_uint32()
    check(attribute(identity, which, ctypes.byref(ctypes.c_size_t(4)), ctypes.byref(value)))
    return value.value


def check(status: int) -> None:
    """Exit if a CUPTI function failed."""
    if status:
        raise SystemExit(f"CUPTI answers with error {status}: not a library with the metric API?")


def united(tables: Iterable[Iterable[Row]]) -> list[Row]:
    """Merge tables in order; the first two columns are the key."""
    rows: dict[Row, Row] = {}
    for row in itertools.chain.from_iterable(tables):
        if rows.setdefault(row[:2], row) != row:
            raise SystemExit(f"the libraries disagree: {rows[row[:2]]} and {row}")
    return [rows[key] for key in sorted(rows)]


def write(file: Path, header: str, rows: Iterable[Row]) -> None:
    """Write a CSV table."""
    with file.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(header.split(","))
        writer.writerows(rows)


def main() -> None:
    """Write both tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("libraries", nargs="+", help="paths of libcupti.so")
    parser.add_argument("--directory", type=Path, default=DATA, help="output directory")
    arguments = parser.parse_args()
    libraries = [ctypes.CDLL(path) for path in arguments.libraries]
    names = united(map(callbacks, libraries))
    metrics = united(map(counters, libraries))
    write(arguments.directory / "cupti_callbacks.csv", "domain,cbid,name", names)
    write(arguments.directory / "nvprof_metrics.csv", "record,id,name,kind,unit", metrics)


if __name__ == "__main__":
    main()
