"""Real memory snapshots: the oracle's numbers, two ways to sum, and what training must hold."""

from __future__ import annotations

import csv
from itertools import accumulate, groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import real_traces
from corpus import corpus_file, corpus_files, relative
from fast import one_in
from perfetto_file import read
from tbd_trace.api import Traces
from tbd_trace.errors import CannotAnswerError
from tbd_trace.export.perfetto import export
from tbd_trace.sources import plain_pickle

ORACLE = "oracle/memory_snapshots.csv"
FILES = corpus_files("memory_snapshot/*.pickle")
# Slow tests take the two smallest and one of training; nightly all of them.
BY_SIZE = corpus_files("memory_snapshot/*.pickle", key=lambda path: path.stat().st_size)
SOME = one_in(7, BY_SIZE, then_one_in=8)
TRAINING = corpus_files("memory_snapshot/*_training_*.pickle", "memory_snapshot/*_fullstep_*")


class Snapshot:
    """One of the real traces."""

    def __init__(self, traces: real_traces.Traces, path: Path) -> None:
        self._traces = traces
        self._name = relative(path)

    def ask(self, query: str, **parameters: str) -> pl.DataFrame:
        return self._traces.ask(self._name, query, parameters)

    def opened(self) -> Traces:
        return Traces(self._traces.database, [self._traces.id(self._name)])


@pytest.fixture
def found(traces: real_traces.Traces, path: Path) -> Snapshot:
    """Return what the file of a test holds, ingested once."""
    return Snapshot(traces, path)


def oracle(path: Path) -> dict[str, int | None]:
    with corpus_file(ORACLE).open(newline="", encoding="utf-8") as file:
        (row,) = [row for row in csv.DictReader(file) if row["file"] == path.name]
    return {key: int(value) if value else None for key, value in row.items() if key != "file"}


def history(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    document = plain_pickle.load(path, "a memory snapshot", "")
    (trace,) = [trace for trace in document["device_traces"] if trace]
    return document, trace


def live_at_the_end(document: dict[str, Any]) -> dict[int, int]:
    return {
        block["address"]: block["requested_size"]
        for segment in document["segments"]
        for block in segment["blocks"]
        if block["state"].startswith("active")
    }


def prefix_sums(path: Path) -> list[int]:
    """Return the live bytes before the history and after each event: the end less all changes."""
    document, trace = history(path)
    signs = {"alloc": 1, "free_completed": -1}
    changes = [signs.get(event["action"], 0) * event["size"] for event in trace]
    start = sum(live_at_the_end(document).values()) - sum(changes)
    return list(accumulate(changes, initial=start))


def replayed_totals(path: Path) -> list[int]:
    """Return the same by the set of live addresses, from the last event back to the first."""
    document, trace = history(path)
    live = live_at_the_end(document)
    total = sum(live.values())
    totals = [total]
    for event in reversed(trace):
        address, size = event["addr"], event["size"]
        if event["action"] == "alloc":
            total -= live.pop(address, size)
        elif event["action"] == "free_completed":
            live[address] = size
            total += size
        totals.append(total)
    return totals[::-1]


@pytest.mark.slow
@pytest.mark.parametrize("path", SOME)
def test_peak_and_ends_are_those_of_the_oracle(path: Path, found: Snapshot) -> None:
    expected = oracle(path)
    (row,) = found.ask("memory_peak").to_dicts()
    for column in ("start_requested_bytes", "peak_requested_bytes", "end_requested_bytes"):
        assert row[column] == expected[column], column
    assert row["peak_sequence"] == expected["peak_event"]
    assert row["device_id"] == expected["device"]
    assert row["end_reserved_bytes"] == expected["reserved_end_bytes"]
    reserved, peak = expected["reserved_peak_bytes"], expected["peak_requested_bytes"]
    assert reserved is not None
    assert peak is not None
    if reserved >= peak:
        assert row["peak_reserved_bytes"] == reserved
        assert row["reason"] is None
    else:
        assert "mosaic" in path.name
        assert row["peak_reserved_bytes"] is None
        assert "their events are missing" in row["reason"]


@pytest.mark.slow
@pytest.mark.parametrize("path", SOME)
def test_both_ways_to_sum_agree_with_each_event(path: Path, found: Snapshot) -> None:
    """The classes of each instant add up to what the prefix sum and the replay say."""
    sums = prefix_sums(path)
    assert sums == replayed_totals(path)
    instants = (
        found.ask("memory_timeline", points="10000000")
        .group_by("sequence", maintain_order=True)
        .agg(pl.col("requested_bytes").sum(), pl.col("total_bytes").first())
    )
    assert instants["requested_bytes"].to_list() == instants["total_bytes"].to_list()
    assert instants["total_bytes"].to_list() == [sums[i + 1] for i in instants["sequence"]]
    assert max(sums) == found.ask("memory_peak")["peak_requested_bytes"].item()


@pytest.mark.slow
@pytest.mark.parametrize("path", SOME)
def test_requested_allocated_and_reserved_bytes_are_in_order(path: Path, found: Snapshot) -> None:
    for row in found.ask("fragmentation", by="pool").to_dicts():
        parts = ("requested", "rounding", "pending", "free_inside", "free_segment")
        sizes = [row[f"{part}_bytes"] for part in parts]
        assert all(size >= 0 for size in sizes)
        if "mosaic" in path.name:  # made by hand: its blocks do not tile its segments
            assert sum(sizes) < row["reserved_bytes"]
        else:
            assert sum(sizes) == row["reserved_bytes"]
    breakdown = found.ask("memory_breakdown", at="end", allow_unknown="true")
    assert (breakdown["requested_bytes"] <= breakdown["allocated_bytes"]).all()


@pytest.mark.parametrize("path", TRAINING)
def test_adam_keeps_two_states_for_each_weight(path: Path, found: Snapshot) -> None:
    frame = found.ask("memory_breakdown", at="end", allow_unknown="true")
    sizes = dict(frame.select("class", "requested_bytes").rows())
    assert sizes["optimizer_state"] == 2 * sizes["weight_gradient"] == 2 * sizes["weight"]
    assert sizes["weight"] > 10**9


def runs_of(segment: dict[str, Any]) -> list[tuple[str, int]]:
    """Return the runs of a segment's blocks in the order of their addresses, with their bytes."""
    runs: list[tuple[str, int]] = []
    for is_free, group in groupby(segment["blocks"], lambda b: b["state"] == "inactive"):
        blocks = list(group)
        size = sum(block["size"] for block in blocks)
        used = size if is_free else sum(block["requested_size"] for block in blocks)
        runs.append(("free" if is_free else "live", used))
        if size > used:
            runs.append(("rounding", size - used))
    if (rest := segment["total_size"] - sum(size for _, size in runs)) > 0:
        runs.append(("unrecorded", rest))
    return runs


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_map_has_every_block_of_every_segment(found: Snapshot, path: Path) -> None:
    document, _ = history(path)
    rows = found.ask("segment_map", top="0")
    assert rows["bytes"].sum() == oracle(path)["reserved_end_bytes"]
    assert rows.filter(state="live")["bytes"].sum() == sum(live_at_the_end(document).values())
    by_size = sorted(document["segments"], key=lambda s: (-s["total_size"], s["address"]))
    shown = rows.partition_by("segment_id", maintain_order=True)
    assert [part.select("state", "bytes").rows() for part in shown] == list(map(runs_of, by_size))


@pytest.mark.slow
@pytest.mark.parametrize("path", SOME, ids=lambda path: path.name)
def test_exported_counters_add_up_at_every_instant(
    found: Snapshot, path: Path, tmp_path: Path
) -> None:
    _, trace = history(path)
    traces = found.opened()
    if not all("time_us" in event for event in trace):
        with pytest.raises(CannotAnswerError, match="no timeline"):
            export(traces, tmp_path / "out.pftrace")
        return
    export(traces, tmp_path / "out.pftrace")
    start = trace[0]["time_us"]
    totals = {
        1000 * (event["time_us"] - start): total
        for event, total in zip(trace, prefix_sums(path)[1:], strict=True)
    }
    live: dict[str, int] = {}
    samples = sorted(
        (at, track[-1], value)
        for track, at, value in read(tmp_path / "out.pftrace").counters
        if track[-1] != "reserved"
    )
    for time, changed in groupby(samples, key=itemgetter(0)):
        for _, name, value in changed:
            live[name] = int(value)
        assert sum(live.values()) == totals[time]
    assert sum(live.values()) == oracle(path)["end_requested_bytes"]
