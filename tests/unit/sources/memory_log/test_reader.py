"""Memory logs whose answers fit on a page, and every way to damage them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import made_nsys
from made_memory import Event, Ingested, alloc, free, write_log
from tbd_trace.errors import CannotAnswerError, InputError
from tbd_trace.query import Catalogue, execute
from tbd_trace.query.connection import connect
from tbd_trace.store import Database


@dataclass(frozen=True)
class Toy:
    """A log, and what is live at its peak and was allocated in all, by class."""

    events: list[Event]
    peak_us: int
    end_bytes: int
    at_peak: dict[str, int]
    in_all: dict[str, int]
    allocated_at_peak: int
    older_releases: int = 0
    header: dict[str, Any] = field(default_factory=dict)

    @property
    def peak_bytes(self) -> int:
        return sum(self.at_peak.values())


def micro_batch(start: int) -> list[Event]:
    return [
        alloc(start + 2, 8192, 512, "feature_map"),
        alloc(start + 3, 32768, 1024, "temporary"),
        free(start + 4, 32768, 1024),
        free(start + 5, 8192, 512),
    ]


TOYS = {
    "plain": Toy(
        [
            alloc(1, 4096, 1000, "weight"),
            alloc(2, 8192, 600, "feature_map"),
            free(3, 8192, 600),
            alloc(4, 12288, 100, "workspace"),
            free(5, 12288, 100),
        ],
        2,
        1000,
        {"weight": 1000, "feature_map": 600},
        {"weight": 1000, "feature_map": 600, "workspace": 100},
        2048,
    ),
    "address_reuse": Toy(
        [
            alloc(1, 4096, 512, "feature_map"),
            free(2, 4096, 512),
            alloc(3, 4096, 512, "weight_gradient"),
            alloc(4, 8192, 256, "feature_map"),
        ],
        4,
        768,
        {"feature_map": 256, "weight_gradient": 512},
        {"feature_map": 768, "weight_gradient": 512},
        1024,
    ),
    "free_of_unrecorded": Toy(
        [
            alloc(1, 4096, 512, "feature_map"),
            free(2, 99_999_744, 2048),
            alloc(3, 8192, 512, "feature_map"),
        ],
        1,
        1024,
        {"feature_map": 512, "unknown": 2048},
        {"feature_map": 1024, "unknown": 2048},
        2560,
        older_releases=1,
        header={"live_before_bytes": 2048},
    ),
    "two_streams": Toy(
        [
            alloc(1, 4096, 512, "feature_map"),
            free(2, 4096, 512) | {"action": "free_requested"},
            alloc(3, 8192, 512, "workspace", stream=7),
            free(4, 4096, 512),
            alloc(5, 4096, 512, "workspace", stream=7),
        ],
        3,
        1024,
        {"feature_map": 512, "workspace": 512},
        {"feature_map": 512, "workspace": 1024},
        1024,
    ),
    "equal_peaks_first_wins": Toy(
        [
            alloc(1, 4096, 512, "weight"),
            alloc(2, 8192, 512, "feature_map"),
            free(3, 8192, 512),
            alloc(4, 8192, 512, "workspace"),
        ],
        2,
        1024,
        {"weight": 512, "feature_map": 512},
        {"weight": 512, "feature_map": 512, "workspace": 512},
        1024,
    ),
    "same_microsecond": Toy(
        [
            alloc(1, 4096, 512, "weight"),
            free(1, 4096, 512),
            alloc(1, 4096, 512, "feature_map"),
        ],
        1,
        512,
        {"weight": 512},
        {"weight": 512, "feature_map": 512},
        512,
    ),
    "zero_bytes": Toy(
        [alloc(1, 4096, 0, "feature_map"), alloc(2, 8192, 512, "weight")],
        2,
        512,
        {"feature_map": 0, "weight": 512},
        {"feature_map": 0, "weight": 512},
        1024,
    ),
    "accumulation": Toy(
        [
            alloc(1, 4096, 1024, "weight"),
            alloc(2, 8192, 512, "feature_map"),
            alloc(3, 16384, 1024, "weight_gradient"),
            free(5, 8192, 512),
            *micro_batch(10),
            *micro_batch(20),
            *micro_batch(30),
        ],
        13,
        2048,
        {"weight": 1024, "weight_gradient": 1024, "feature_map": 512, "temporary": 1024},
        {"weight": 1024, "weight_gradient": 1024, "feature_map": 2048, "temporary": 3072},
        3584,
    ),
}
MOMENTS = ("peak", "end", "step")


@pytest.fixture(scope="module")
def toys(tmp_path_factory: pytest.TempPathFactory) -> Ingested:
    """Return a database of the toys."""
    folder = tmp_path_factory.mktemp("toys")
    return Ingested(*(write_log(folder / name, t.events, **t.header) for name, t in TOYS.items()))


@pytest.fixture(scope="module")
def moments(toys: Ingested) -> dict[str, pl.DataFrame]:
    """Return the classes of all toys at each moment."""
    return {at: toys.ask("memory_breakdown", at=at, allow_unknown="true") for at in MOMENTS}


@pytest.fixture(scope="module")
def without_each(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[list[Any]]]:
    """Return what is said of each toy as a whole, then without each event that can be missing.

    What is said are notes and answers; all logs are in one database, which is asked once.
    """
    folder = tmp_path_factory.mktemp("without")
    database = Database(folder / "db.duckdb")
    notes: dict[str, list[str]] = {}
    ids: dict[str, list[str]] = {}
    for name, toy in TOYS.items():
        for i in (None, *range(len(toy.events))):
            left = [event for number, event in enumerate(toy.events) if number != i]
            path = write_log(folder / f"{name} without {i}", left, **toy.header)
            try:
                (report,) = database.ingest([path])
            except InputError as error:
                assert i is not None
                assert "is allocated twice (a free is missing)" in str(error)
            else:
                notes.setdefault(report.trace_id, report.notes)
                assert report.trace_id not in ids.setdefault(name, [])
                ids[name].append(report.trace_id)
    frames = [
        execute(database, Catalogue().get(query), parameters=parameters).frame
        for query, parameters in (
            ("memory_peak", {}),
            *(("memory_breakdown", {"at": at, "allow_unknown": "true"}) for at in MOMENTS),
        )
    ]
    said = {
        trace_id: [
            notes[trace_id],
            *(frame.filter(trace_id=trace_id).drop("trace_id").rows() for frame in frames),
        ]
        for trace_id in notes
    }
    return {name: [said[trace_id] for trace_id in trace_ids] for name, trace_ids in ids.items()}


def classes(frame: pl.DataFrame, trace_id: str) -> dict[str, int]:
    own = frame.filter(pl.col("trace_id") == trace_id)
    return dict(own.select("class", "requested_bytes").rows())


@pytest.mark.parametrize("name", TOYS)
def test_peak_and_end(toys: Ingested, name: str) -> None:
    toy = TOYS[name]
    (row,) = toys.of(name, "memory_peak").to_dicts()
    assert row["peak_requested_bytes"] == toy.peak_bytes
    assert row["peak_ns"] == toy.peak_us * 1000
    assert row["end_requested_bytes"] == toy.end_bytes
    assert row["unmatched_frees"] == toy.older_releases
    assert row["peak_reserved_bytes"] is None
    assert "does not record" in row["reason"]


@pytest.mark.slow
@pytest.mark.parametrize("name", TOYS)
def test_classes_at_the_peak_and_in_all(
    toys: Ingested, moments: dict[str, pl.DataFrame], name: str
) -> None:
    toy, trace_id = TOYS[name], toys.ids[name]
    assert classes(moments["peak"], trace_id) == toy.at_peak
    assert classes(moments["step"], trace_id) == toy.in_all
    assert sum(classes(moments["end"], trace_id).values()) == toy.end_bytes


@pytest.mark.parametrize("name", TOYS)
def test_rounding_at_the_peak(toys: Ingested, name: str) -> None:
    toy = TOYS[name]
    frame = toys.of(name, "memory_breakdown", allow_unknown="true")
    # 512 bytes are the unit of PyTorch's allocator, and the least that it takes
    assert frame["allocated_bytes"].sum() == toy.allocated_at_peak
    assert frame["requested_bytes"].sum() == toy.peak_bytes


@pytest.mark.slow
@pytest.mark.parametrize("name", TOYS)
def test_each_event_counts(without_each: dict[str, list[list[Any]]], name: str) -> None:
    """Without any one event the answer is another, or there is a note or an error."""
    whole, *others = without_each[name]
    assert others
    assert whole not in others


def test_releases_of_older_memory_are_noted(toys: Ingested) -> None:
    (report,) = [r for r in toys.reports if r.trace_id == toys.ids["free_of_unrecorded"]]
    assert "allocated before the recording: 1" in report.notes[0]
    with pytest.raises(CannotAnswerError, match="the class of 80 % of the bytes is unknown"):
        toys.of("free_of_unrecorded", "memory_breakdown")


# damaged logs


@pytest.mark.parametrize(
    ("events", "words"),
    [
        (
            [alloc(1, 4096, 512), alloc(2, 4096, 1024)],
            "event 2: address 4096 of stream 0 is allocated twice (a free is missing)",
        ),
        ([alloc(1, 4096, -1)], "event 1: -1 bytes"),
        ([alloc(1, 4096, 8), alloc(2, 8192, 8, "wieght")], "event 2: unknown class wieght"),
        ([alloc(1, 4096, 8) | {"action": "malloc"}], "event 1: unknown action malloc"),
        ([alloc(1, 4096, 8) | {"action": None}], "event 1: unknown action null"),
        ([alloc(1, 4096, 8) | {"address": None}], "event 1: it has no address"),
        ([alloc(1, 4096, 8) | {"bytes": None}], "event 1: it has no bytes"),
        ([alloc(1, 4096, 8) | {"bytes": "many"}], "damaged"),
        ([alloc(1, 2**64, 8)], "damaged"),
    ],
)
def test_an_event_that_cannot_be_is_named(tmp_path: Path, events: list[Event], words: str) -> None:
    path = write_log(tmp_path / "memory.jsonl", events)
    with pytest.raises(InputError) as raised:
        Ingested(path)
    message = str(raised.value)
    assert message.startswith(f"{path}: ")
    assert words in message
    assert "\n" not in message


@pytest.mark.parametrize("header", [{"version": 2}, {"time_unit": "hours"}, {"time_unit": None}])
def test_headers_of_another_version(tmp_path: Path, header: dict[str, Any]) -> None:
    path = write_log(tmp_path / "memory.jsonl", [alloc(1, 4096, 8)], **header)
    with pytest.raises(InputError, match="this program reads version 1 in ns, us, ms"):
        Ingested(path)


def test_a_log_cut_in_a_line(tmp_path: Path) -> None:
    path = write_log(tmp_path / "memory.jsonl", [alloc(i, 512 * i, 8) for i in range(9)])
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"memory.jsonl: damaged"):
        Ingested(path)


@pytest.mark.slow
def test_a_log_without_times(tmp_path: Path) -> None:
    events = [alloc(None, 4096, 8, "weight"), alloc(None, 8192, 8, "input")]
    found = Ingested(write_log(tmp_path / "memory.jsonl", events))
    assert found.ask("memory_peak")["peak_ns"].to_list() == [None]
    assert found.ask("memory_timeline")["timestamp_ns"].is_null().all()
    assert found.ask("memory_timeline")["total_bytes"].to_list() == [8, 8, 16, 16]
    with pytest.raises(CannotAnswerError):
        found.ask("gpu_activity")


def test_estimates_say_so(tmp_path: Path) -> None:
    path = write_log(
        tmp_path / "memory.jsonl",
        [alloc(1, 4096, 8)],
        estimated=True,
        assumptions=["flash attention"],
    )
    assert Ingested(path).notes == [
        "estimated: tensors had shapes but no data",
        "assumed: flash attention",
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("framework", "device_type", "allocator", "device"),
    [("pytorch", "cuda", "torch", 0), ("mxnet", "cpu", "mxnet", None), ("none", None, "none", 0)],
)
def test_allocator_and_device_of_the_header(
    tmp_path: Path, framework: str, device_type: str | None, allocator: str, device: int | None
) -> None:
    header = {"framework": framework, "device_type": device_type}
    found = Ingested(write_log(tmp_path / "memory.jsonl", [alloc(1, 4096, 8)], **header))
    assert found.ask("memory_peak").select("allocator", "device_id").rows() == [(allocator, device)]


@pytest.mark.slow
def test_the_last_class_before_the_release_counts(tmp_path: Path) -> None:
    said = {"t": 2, "action": "classify", "address": 4096}
    events = [
        alloc(1, 4096, 8, "temporary", layer="fc"),
        said | {"class": "activation_gradient"},
        said | {"class": "weight_gradient", "layer": "conv"},
        free(3, 4096, 8),
        said | {"class": "buffer"},  # of nothing that is live
        alloc(4, 4096, 16, "weight"),
    ]
    found = Ingested(write_log(tmp_path / "memory.jsonl", events))
    frame = found.ask("memory_timeline", by="layer")
    assert set(frame["part"]) == {"conv", "unknown"}
    rows = found.ask("memory_breakdown", at="step").select("class", "requested_bytes").rows()
    assert rows == [("weight", 16), ("weight_gradient", 8)]


# nsys


MEMORY = "CUDA_GPU_MEMORY_USAGE_EVENTS"
KINDS = {"Pinned": 1, "Device": 2}
PEAK = (
    *("process_id", "device_id", "memory_kind"),
    *("peak_requested_bytes", "peak_ns", "end_requested_bytes"),
)


@pytest.mark.slow
def test_allocations_of_cuda_by_process_device_and_kind(tmp_path: Path) -> None:
    """Four spaces: two processes, two devices of the first, and its pinned memory."""
    first, second = 1 << 24, 2 << 24
    events = [
        (10, first, 0, 4096, 2 << 20, "Device", 0),
        (20, first, 0, 4 << 20, 20 << 20, "Device", 0),
        (25, second, 0, 4096, 1 << 20, "Device", 0),
        (30, first, 0, 4 << 20, 20 << 20, "Device", 1),
        (35, first, 0, 36 << 20, 4 << 20, "Pinned", 0),
        (40, first, 1, 4096, 3 << 20, "Device", 0),
    ]
    rows = [
        {
            "start": start, "globalPid": pid, "deviceId": device, "contextId": device + 1,
            "address": address, "bytes": size, "memKind": KINDS[kind],
            "memoryOperationType": operation, "correlationId": None, "name": None,
        }
        for start, pid, device, address, size, kind, operation in events
    ]  # fmt: skip
    found = Ingested(made_nsys.write(tmp_path / "a.sqlite", {MEMORY: rows}))
    frame = found.ask("memory_peak")
    assert sorted(frame.select(PEAK).rows()) == [
        (first, 0, "device", 22 << 20, 20, 2 << 20),
        (first, 0, "pinned", 4 << 20, 35, 4 << 20),
        (first, 1, "device", 3 << 20, 40, 3 << 20),
        (second, 0, "device", 1 << 20, 25, 1 << 20),
    ]
    assert set(frame["allocator"]) == {"cuda"}
    assert set(frame["reason"]) == {"the driver's allocations are not divided further"}


@pytest.mark.slow
def test_pools_of_cuda_and_a_file_with_allocations_only(tmp_path: Path) -> None:
    """A pool of this process, one that another process shares, and memory outside of pools."""
    rows = [
        {
            "start": 10 + number, "globalPid": 1 << 24, "deviceId": 0, "contextId": 1,
            "address": 4096 * (1 + number), "bytes": 8, "memKind": KINDS["Device"],
            "memoryOperationType": 0, "localMemoryPoolAddress": local,
            "importedMemoryPoolAddress": imported,
        }
        for number, (local, imported) in enumerate([(0xAB0, 0), (0, 0xCD0), (0, 0), (None, None)])
    ]  # fmt: skip
    found = Ingested(made_nsys.write(tmp_path / "a.sqlite", {MEMORY: rows}))
    with connect(found.database) as connection:
        pools = connection.execute("SELECT pool FROM memory_event ORDER BY sequence").fetchall()
    assert pools == [("0xab0",), ("0xcd0",), (None,), (None,)]
    assert found.notes[0] == "no GPU activity was recorded, only allocations of memory"


@pytest.mark.slow
def test_readings_of_the_device_say_what_is_outside_the_allocator(tmp_path: Path) -> None:
    """Reserved bytes read with the device count, not those of the modelled allocator."""
    events = [
        {"t": 0, "action": "alloc", "address": 1, "bytes": 100, "class": "weight"},
        {"t": 5, "action": "device", "used": 9_000, "total": 10_000, "reserved": 4_000},
    ]
    found = Ingested(write_log(tmp_path / "memory.jsonl", events, framework="pytorch"))
    (row,) = found.ask("memory_untracked").to_dicts()
    assert (row["used_bytes"], row["reserved_bytes"], row["untracked_bytes"]) == (9000, 4000, 5000)


@pytest.mark.parametrize("reading", [{"used": 11, "total": 10}, {"used": -1, "total": 10}])
def test_an_impossible_reading_of_the_device_is_named(
    tmp_path: Path, reading: dict[str, int]
) -> None:
    path = write_log(tmp_path / "memory.jsonl", [{"action": "device", **reading}])
    with pytest.raises(InputError, match=r"event 1: .* of 10 bytes in use"):
        Ingested(path)
