"""export perfetto: counters of memory, compared with a replay of the files and with hand work."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from pathlib import Path

import pytest

import tbd_trace
from corpus import ROOT
from made_memory import alloc, entry, free, snapshot, write_log, write_pickle
from made_nsys import profile, write
from memory_lines import Memory
from perfetto_file import File, read
from tbd_trace.errors import CannotAnswerError, UsageError
from tbd_trace.export.perfetto import export
from trace_processor import ask

SAMPLE = ROOT / "data" / "samples" / "synthetic_memory"
LOG, SNAPSHOT = SAMPLE / "memory.jsonl", SAMPLE / "snapshot.pickle"


class Counters:
    """Values of the counters of a file over time."""

    def __init__(self, file: File) -> None:
        self.values: dict[tuple[str, ...], list[tuple[int, float]]] = defaultdict(list)
        for track, at, value in file.counters:
            self.values[track].append((at, value))

    def at(self, time: int) -> dict[str, float]:
        """Return the last value of each counter of the only space until a time."""
        found = {}
        for (_, name), values in self.values.items():
            number = bisect_right(values, time, key=lambda sample: sample[0])
            if number:
                found[name] = values[number - 1][1]
        return found


def exported(source: Path, folder: Path) -> File:
    export(tbd_trace.open(source), folder / "made.pftrace")
    return read(folder / "made.pftrace")


@pytest.mark.slow
def test_counters_are_the_live_bytes_of_each_class_at_each_event(elsewhere: Path) -> None:
    memory = Memory(LOG)
    assert memory.header["time_unit"] == "us"
    counters = Counters(exported(LOG, elsewhere))
    for number, event in enumerate(memory.events):
        live = counters.at(1000 * event["t"])
        del live["reserved"]
        assert {name: size for name, size in live.items() if size} == memory.at(number)
        assert sum(live.values()) == memory.running()[number]


@pytest.mark.slow
@pytest.mark.parametrize("source", [LOG, SNAPSHOT])
def test_counters_add_up_to_the_live_bytes(elsewhere: Path, source: Path) -> None:
    counters = Counters(exported(source, elsewhere))
    running = tbd_trace.open(source).sql(
        "SELECT timestamp_ns, arg_max(requested_bytes, sequence), arg_max(reserved_bytes, sequence)"
        " FROM memory_running GROUP BY ALL ORDER BY ALL"
    )
    assert running.height > 100
    for time, requested, reserved in running.rows():
        live = counters.at(time)
        assert live.pop("reserved") == reserved
        assert sum(live.values()) == requested


@pytest.mark.slow
def test_devices_have_their_own_counters_and_begin_with_older_bytes(elsewhere: Path) -> None:
    first = [
        entry("free_completed", 4096, 700, 10),  # allocated before the recording
        entry("alloc", 4096, 512, 20),
        entry("alloc", 8192, 100, 20),
        entry("free_completed", 8192, 100, 30),
    ]
    second = [entry("alloc", 4096, 1000, 15)]
    path = write_pickle(elsewhere / "made.pickle", snapshot([], first, second))
    counters = Counters(exported(path, elsewhere))
    starts = min(at for values in counters.values.values() for at, _ in values)
    shown = {
        track: [((at - starts) // 1000, value) for at, value in values]
        for track, values in counters.values.items()
    }
    assert shown == {
        ("Memory of GPU 0, torch", "unknown"): [(0, 0), (10, 612), (20, 512)],
        ("Memory of GPU 1, torch", "unknown"): [(5, 1000)],
    }


def test_memory_without_times_has_no_counters(elsewhere: Path) -> None:
    events = [alloc(None, 1, 100, "weight"), free(None, 1, 100)]
    with pytest.raises(CannotAnswerError, match="no timeline"):
        exported(write_log(elsewhere / "memory.jsonl", events), elsewhere)
    assert not (elsewhere / "made.pftrace").exists()


@pytest.mark.slow
def test_memory_of_two_clocks_is_not_mixed(elsewhere: Path) -> None:
    with pytest.raises(UsageError, match="several timelines with different clocks"):
        exported(SAMPLE, elsewhere)


@pytest.mark.slow
def test_a_timeline_with_memory_has_both(elsewhere: Path) -> None:
    path = write(elsewhere / "made.sqlite", profile())
    file = exported(path, elsewhere)
    assert file.of("kernel")
    memory = [(at, value) for track, at, value in file.counters if "emory" in track[0]]
    assert memory
    rows = tbd_trace.open(path).sql("SELECT timestamp_ns FROM memory_event").rows()
    assert {at for at, _ in memory} <= {time for (time,) in rows}


@pytest.mark.slow
def test_the_trace_processor_reads_the_counters(elsewhere: Path) -> None:
    file = exported(SNAPSHOT, elsewhere)
    problems, rows = ask(
        elsewhere / "made.pftrace",
        "SELECT name, value FROM stats WHERE value > 0 AND severity IN ('error', 'data_loss')",
        "SELECT t.name, t.unit, c.ts, c.value FROM counter c "
        "JOIN counter_track t ON t.id = c.track_id",
    )
    assert problems == []
    assert {unit for _, unit, *_ in rows} == {"byte"}
    assert sorted((name, at, value) for name, _, at, value in rows) == sorted(
        (track[-1], at, value) for track, at, value in file.counters
    )
