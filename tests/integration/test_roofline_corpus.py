"""The roofline of a real Nsight Compute report, against a count of its cycles."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

import tbd_trace

FILE = "ncu/chia7_ece408_project__analysis_file.raw_unitsbase_fp.csv"
_OPERATION = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum.per_cycle_elapsed"


@pytest.mark.slow
def test_counts_per_cycle_become_operations(corpus: Path, elsewhere: Path) -> None:
    with (corpus / FILE).open(newline="", encoding="utf-8") as file:
        _, *rows = csv.DictReader(file)
    flop: dict[str, float] = {}
    moved: dict[str, float] = {}
    for row in rows:
        partitions = 4 * float(row["device__attribute_multiprocessor_count"])
        cycles = float(row["smsp__cycles_elapsed.sum"]) / partitions
        add, multiply, both = (float(row[_OPERATION.format(x)]) for x in ("fadd", "fmul", "ffma"))
        name = row["Kernel Name"]
        flop[name] = flop.get(name, 0) + (add + multiply + 2 * both) * cycles
        moved[name] = moved.get(name, 0) + sum(
            float(row[f"dram__bytes_{way}.sum"]) for way in ("read", "write")
        )
    (busy,) = [name for name, n in flop.items() if n > 1e9]
    frame = tbd_trace.open(corpus / FILE).query("roofline")
    found = {row["kernel_name"]: row for row in frame.to_dicts() if row["precision"] == "fp32"}
    assert len(found) == len(flop)
    (row,) = [row for row in found.values() if row["flop"] > 1e9]
    assert row["kernel_name"].partition("(")[0] == busy.partition("(")[0]
    # Rate and time are printed rounded, and so the cycles that they give.
    assert row["flop"] == pytest.approx(flop[busy], rel=1e-5)
    assert row["dram_bytes"] == pytest.approx(moved[busy], rel=1e-9)
    assert row["arithmetic_intensity"] == pytest.approx(flop[busy] / moved[busy], rel=1e-5)
