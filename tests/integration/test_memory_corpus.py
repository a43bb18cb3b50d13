"""Real memory snapshots: the oracle's numbers, two ways to sum, and what training must hold."""

from __future__ import annotations

import csv
from itertools import accumulate
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from corpus import CORPUS, corpus_files
from made_memory import Ingested
from tbd_trace.sources.torch_memory import plain_pickle

ORACLE = CORPUS / "oracle" / "memory_snapshots.csv"
FILES = corpus_files("memory_snapshot/*.pickle")
TRAINING = corpus_files("memory_snapshot/*_training_*.pickle", "memory_snapshot/*_fullstep_*")

_databases: dict[Path, Ingested] = {}


@pytest.fixture
def found(path: Path, tmp_path_factory: pytest.TempPathFactory) -> Ingested:
    """Return a database of one file, ingested once; the link's folder can be written to."""
    if path not in _databases:
        link = tmp_path_factory.mktemp("snapshot") / path.name
        link.symlink_to(path)
        _databases[path] = Ingested(link)
    return _databases[path]


def oracle(path: Path) -> dict[str, int | None]:
    with ORACLE.open(newline="", encoding="utf-8") as file:
        (row,) = [row for row in csv.DictReader(file) if row["file"] == path.name]
    return {key: int(value) if value else None for key, value in row.items() if key != "file"}


def history(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    document = plain_pickle.load(path)
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


@pytest.mark.parametrize("path", FILES)
def test_peak_and_ends_are_those_of_the_oracle(path: Path, found: Ingested) -> None:
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


@pytest.mark.parametrize("path", FILES)
def test_both_ways_to_sum_agree_with_each_event(path: Path, found: Ingested) -> None:
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


@pytest.mark.parametrize("path", FILES)
def test_requested_allocated_and_held_bytes_are_in_order(path: Path, found: Ingested) -> None:
    for row in found.ask("fragmentation", by="pool").to_dicts():
        parts = ("requested", "rounding", "pending", "free_inside", "free_segment")
        sizes = [row[f"{part}_bytes"] for part in parts]
        assert all(size >= 0 for size in sizes)
        if "mosaic" in path.name:  # made by hand: its blocks do not tile its segments
            assert sum(sizes) < row["reserved_bytes"]
        else:
            assert sum(sizes) == row["reserved_bytes"]
    held = found.ask("memory_breakdown", at="end", allow_unknown="true")
    assert (held["requested_bytes"] <= held["allocated_bytes"]).all()


@pytest.mark.parametrize("path", TRAINING)
def test_adam_keeps_two_states_for_each_weight(path: Path, found: Ingested) -> None:
    frame = found.ask("memory_breakdown", at="end", allow_unknown="true")
    held = dict(frame.select("class", "requested_bytes").rows())
    assert held["optimizer_state"] == 2 * held["weight_gradient"] == 2 * held["weight"]
    assert held["weight"] > 10**9
