"""Periodic GPU metrics: means by window, iteration and layer, and the limits that they show."""

from __future__ import annotations

from typing import Any

import pytest

from made_trace import MadeDatabase, MadeTrace
from tbd_trace.query import prepare

NAMES = {
    "sm_active": "SM Active",
    "sm_issue": "SM Issue",
    "tensor": "Tensor Active",
    "dram_read": "DRAM Read Throughput",
    "dram_write": "DRAM Write Throughput",
    "occupancy": "Compute Warps In Flight",
}


def trained(values: dict[str, float], samples: int = 40) -> MadeTrace:
    """Return four iterations of 100 ns: 60 ns of layer a, 20 ns of layer b, and 20 ns of nothing.

    A sample every 10 ns has the value where a kernel ran, else 0.
    """
    made = MadeTrace()
    for number in range(4):
        begin = 100 * number
        made.add_range(begin, begin + 100, f"iteration {number}")
        for layer, start, end, place in (("a", 0, 60, 2), ("b", 60, 80, 12)):
            made.add_range(begin + place, begin + place + 8, f"layer:{layer}")
            made.launch(begin + place + 1, begin + start, begin + end, f"work_{layer}")
    for number in range(samples + 1):
        is_idle = number % 10 in (9, 0)
        for quantity, value in values.items():
            made.add(
                "gpu_sample", gpu_id=0, timestamp_ns=10 * number, metric=NAMES[quantity],
                unit="%", value=0 if is_idle else value,
            )  # fmt: skip
    return made


def asked(database: MadeDatabase, **parameters: str) -> list[dict[str, Any]]:
    return database.metric("sampled_util", **parameters)


@pytest.mark.slow
def test_means_by_window_iteration_and_layer() -> None:
    with trained({"dram_read": 50, "tensor": 20}).connect() as database:
        whole = {row["quantity"]: row for row in asked(database)}
        by_iteration = asked(database, by="iteration")
        by_layer = asked(database, by="layer")
    # Of 100 ns, 80 ns have the value.
    assert set(whole) == {"dram_read", "tensor"}
    for quantity, value in (("dram_read", 50), ("tensor", 20)):
        row = whole[quantity]
        assert (row["max_pct"], row["evidence"], row["reason"]) == (value, "sampled", None)
        assert row["metric"] == NAMES[quantity]
        assert row["samples"] * 10 == row["sampled_ns"]
        means = [r["value_pct"] for r in by_iteration if r["quantity"] == quantity]
        assert means == [pytest.approx(0.8 * value)] * len(means)
        layers = {r["layer"]: r for r in by_layer if r["quantity"] == quantity}
        assert {name: r["value_pct"] for name, r in layers.items()} == {"a": value, "b": value}
        assert layers["a"]["sampled_ns"] == 3 * layers["b"]["sampled_ns"]
    assert len({row["iteration"] for row in by_iteration}) >= 2


@pytest.mark.slow
def test_a_sample_above_the_peak_gives_no_mean() -> None:
    with trained({"dram_read": 120}).connect() as database:
        (row,) = asked(database)
    assert row["value_pct"] is row["max_pct"] is None
    assert row["reason"] == "a sample of 120 % is above the peak"


def test_a_pause_of_the_sampling_counts_as_ten_intervals_at_most() -> None:
    made = trained({"tensor": 10})
    late = [row for row in made.rows["gpu_sample"] if not 60 < row["timestamp_ns"] < 390]
    made.rows["gpu_sample"] = late
    with made.connect() as database:
        rows = database.relation("sample_interval")
    last = max(rows, key=lambda row: row["end_ns"])
    assert {row["end_ns"] - row["start_ns"] for row in rows if row is not last} <= {10, 100}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (
            {"dram_read": 50, "dram_write": 21, "sm_issue": 30, "tensor": 0, "sm_active": 90},
            "memory limits the kernels: device memory 71 %, instruction issue 30 %, tensor cores "
            "0 % (unused) of the peak; 90 % of the SMs have work (32 samples)",
        ),
        (
            {"dram_read": 5, "dram_write": 5, "sm_issue": 20, "tensor": 75, "occupancy": 12},
            "compute units limit the kernels: device memory 10 %, instruction issue 20 %, tensor "
            "cores 75 % of the peak, occupancy 12 % (32 samples)",
        ),
        (
            {"dram_read": 5, "dram_write": 5, "sm_issue": 20},
            "neither memory nor compute units are near their peak: device memory 10 %, "
            "instruction issue 20 % of the peak (32 samples)",
        ),
        ({"sm_active": 90}, None),
    ],
)
def test_what_limits_the_kernels(values: dict[str, float], expected: str | None) -> None:
    with trained(values).connect() as database:
        prepare(database.connection, ["step_cause"])
        (row,) = database.relation("sampled_limit")
        told = database.select("SELECT DISTINCT sampled FROM step_cause")
    assert row["sentence"] == expected
    assert told == [{"sampled": expected}]


def test_few_samples_say_nothing() -> None:
    values = dict.fromkeys(("dram_read", "dram_write", "sm_issue"), 50.0)
    with trained(values, samples=8).connect() as database:
        (row,) = database.relation("sampled_limit")
    assert row["samples"] < 10
    assert row["sentence"] is None
