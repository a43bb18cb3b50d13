"""Memory rules on real snapshots: each answer follows from the file by other arithmetic."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import real_traces
from corpus import corpus_file, corpus_files, reference_rows, relative
from made_memory import Ingested
from tbd_trace.analysis.checks import evaluate
from tbd_trace.api import Traces
from tbd_trace.sources import plain_pickle

ORACLE = "oracle/memory_snapshots.csv"
FILES = corpus_files("memory_snapshot/*.pickle")
MXNET = "mxnet_gpu_memory*{}*.csv"
PAPER = {"resnet*L_50": "ResNet-50", "finetune": "BERT"}  # workloads by a part of the file's name
MIB = 1 << 20
DEVICE = 80 * 1024 * MIB - 500 * MIB  # memory_gb less context_mb
RULES = ("OBS11", "MEM01", "MEM02", "MEM03", "MEM04", "MEM05")
MAPS, UNTRACKED = "feature_maps_and_their_gradients", "cuda_context_untracked"
P, F, N = "pass", "finding", "not evaluable"
# Answers in the order of RULES, with a device of 80 GiB. Snapshots hold one or no iteration (MEM02)
# and no reading of the device (MEM05). No rule about training evaluates inference or a lone forward
# pass. Fragmentation is found once, and only at the end, where most memory was released.
ANSWERS = {
    "medium_128_inference": (N, P, N, N, N, N),
    # AdamW of a small context: states and gradients make the peak, temporaries are 2 % of it.
    "medium_128_training": (P, P, N, P, F, N),
    "ctx256_fullstep_": (P, P, N, P, F, N),
    "medium_512_training": (F, P, N, P, F, N),  # four times the context, and its feature maps
    "cranberrii": (F, F, N, N, F, N),
    "ctx128_forward.": (N, P, N, N, N, N),
    "ctx128_forward_mixed": (N, P, N, N, N, N),
    "silmont2000_assignment2-systems__mem_snapshot": (F, P, N, N, F, N),  # one attention layer
    "memory_forward_fp32_128": (N, P, N, N, N, N),
    # Its segments hold less than its live bytes; nothing is said about the peak.
    "mosaic": (N, N, N, N, N, N),
}

_rows: dict[str, dict[str, dict[str, Any]]] = {}


@pytest.fixture
def rows(traces: real_traces.Traces, path: Path) -> dict[str, dict[str, Any]]:
    """Return the answers about a file by rule."""
    if path.name not in _rows:
        opened = Traces(traces.database, [traces.id(relative(path))])
        frame = evaluate(opened, RULES, parameters={"memory_gb": "80"})
        _rows[path.name] = {row["rule"]: row for row in frame.to_dicts()}
    return _rows[path.name]


@cache
def oracle(name: str) -> dict[str, int]:
    with corpus_file(ORACLE).open(newline="", encoding="utf-8") as file:
        (row,) = [row for row in csv.DictReader(file) if row["file"] == name]
    return {key: int(value) for key, value in row.items() if key != "file" and value}


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES)
def test_answers_about_real_snapshots(path: Path, rows: dict[str, dict[str, Any]]) -> None:
    (expected,) = [answer for name, answer in ANSWERS.items() if name in path.name]
    assert tuple(rows[rule]["verdict"] for rule in RULES) == expected
    for row in rows.values():
        assert (row["value"] is None) == (row["verdict"] == N)
        assert row["reason"] and (row["verdict"] == P or row["advice"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", corpus_files("memory_snapshot/*_512_training_*", "memory_snapshot/cranb*")
)
def test_what_the_iteration_adds_are_feature_maps(
    path: Path, rows: dict[str, dict[str, Any]]
) -> None:
    """At the peak, early in the backward pass, all that is new since the start is of this class."""
    known = oracle(path.name)
    start, peak = known["start_requested_bytes"], known["peak_requested_bytes"]
    assert rows["OBS11"]["value"] == pytest.approx(100 * (peak - start) / peak)
    # Each further batch needs the new bytes again, in proportion to the reserved bytes.
    live = DEVICE * peak / known["reserved_peak_bytes"]
    assert rows["MEM04"]["value"] == pytest.approx((live - start) / (peak - start))


@pytest.mark.parametrize("path", FILES)
def test_fragmentation_by_the_blocks_of_the_file(
    path: Path, rows: dict[str, dict[str, Any]]
) -> None:
    """Free blocks of used segments at the end; at the peak, at most reserved minus live bytes."""
    segments = plain_pickle.load(path, "a memory snapshot", "")["segments"]
    free = sum(
        block["size"]
        for segment in segments
        if any(block["state"].startswith("active") for block in segment["blocks"])
        for block in segment["blocks"]
        if block["state"] == "inactive"
    )
    row, known = rows["MEM01"], oracle(path.name)
    if row["verdict"] == N:
        assert known["peak_requested_bytes"] > known["reserved_peak_bytes"]
        return
    at_end = 100 * free / known["reserved_end_bytes"]
    gap = known["reserved_peak_bytes"] - known["peak_requested_bytes"]
    at_peak = 100 * gap / known["reserved_peak_bytes"]
    if "at the end" in row["reason"]:
        assert row["value"] == pytest.approx(at_end)
    else:
        assert at_end <= row["value"] <= at_peak


@pytest.mark.slow
@pytest.mark.parametrize("path", corpus_files(*(f"memory/{MXNET.format(name)}" for name in PAPER)))
def test_feature_maps_of_the_papers_framework(path: Path, tmp_path: Path) -> None:
    """MXNet states the classes; the share is that of the reference, without the CUDA context."""
    (workload,) = (one for name, one in PAPER.items() if path.match(MXNET.format(name)))
    bytes_of: dict[str, dict[str, int]] = {}
    for row in reference_rows("mxnet_memory_breakdown.csv"):
        if row["workload"].startswith(workload) and row["data_class"] != UNTRACKED:
            device = bytes_of.setdefault(row["device"], {})
            device[row["data_class"]] = int(row["requested_bytes"])
    shares = [100 * sizes[MAPS] / sum(sizes.values()) for sizes in bytes_of.values()]
    link = tmp_path / path.name
    link.symlink_to(path)
    database = Ingested(link).database
    (row,) = evaluate(Traces(database, database.trace_ids()), ["OBS11"]).to_dicts()
    assert row["verdict"] == F
    assert row["value"] == pytest.approx(max(shares))
