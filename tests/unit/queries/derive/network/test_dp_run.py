"""The band of predictions: the link and the iterations of one worker, worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from made_run import add_run
from made_trace import MadeTrace, metric

ASKED: dict[str, Any] = {"scheme": "ddp", "workers": "2", "latency_s": 0.0}
FROM_100 = (0, 4, -3, 9, -10, 1, -8, 7, -1, 5, -6, 10, 2, -5, 8, -2, -9, 3, -7, 6, -4)


def varied(spread: float, count: int = 21) -> MadeTrace:
    """Make iterations of 100 ms and up to ± 10 × spread; an all-reduce takes 20 ms at 1 Gbit/s.

    Before them, one of 150 ms is warm-up. After them, the end of the last one is not known.
    """
    made = MadeTrace()
    add_run(made, "t", [150, *(100 + round(spread * change) for change in FROM_100[:count])])
    return made


@pytest.mark.slow
def test_iterations_widen_the_band() -> None:
    """Percentiles of 91 and 109 ms; the all-reduce follows the computation."""
    (row,) = metric(varied(1), "dp_speedup", bandwidth_gbit="1", **ASKED)
    assert row["iteration_s"] == pytest.approx(0.12)
    assert row["iteration_low_s"] == pytest.approx(0.091 + 0.02 / 1.05)
    assert row["iteration_high_s"] == pytest.approx(0.109 + 0.02 / 0.95)
    assert row["speedup"] == pytest.approx(2 * 0.1 / 0.12)
    assert row["speedup_low"] == pytest.approx(2 * 0.091 / (0.091 + 0.02 / 0.95))
    assert row["speedup_high"] == pytest.approx(2 * 0.109 / (0.109 + 0.02 / 1.05))
    assert row["band"] == "link and iterations"


@pytest.mark.slow
def test_band_of_the_smallest_bandwidth() -> None:
    """For a speed-up of 1.6, the all-reduce may take a fourth of the computation."""
    rows = metric(varied(1), "min_bandwidth", target_speedup="1.6,2.5", **ASKED)
    assert rows[0]["min_gbit_s"] == pytest.approx(20 / 25)
    assert rows[0]["min_low_gbit_s"] == pytest.approx(20 / (109 / 4) / 1.05)
    assert rows[0]["min_high_gbit_s"] == pytest.approx(20 / (91 / 4) / 0.95)
    assert rows[0]["no_overlap_gbit_s"] == pytest.approx(20 / 25)
    assert [rows[1][f"min{side}_gbit_s"] for side in ("", "_low", "_high")] == [None] * 3


@pytest.mark.slow
def test_the_smallest_bandwidth_of_short_iterations_can_be_none() -> None:
    """An all-reduce of at least 24 ms fits into the 25 ms of 100, and not into 22.75 of 91."""
    rows = metric(
        varied(1), "min_bandwidth", target_speedup="1.6", **ASKED | {"all_reduce_s": 0.024}
    )
    assert rows[0]["min_gbit_s"] == pytest.approx(20)
    assert rows[0]["min_low_gbit_s"] == pytest.approx(20 / 3.25 / 1.05)
    assert rows[0]["min_high_gbit_s"] is None


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["ddp", "serial", "ps", "p3"])
def test_band_contains_the_prediction_and_grows_with_the_spread(scheme: str) -> None:
    widths: dict[str, list[float]] = {"iteration": [], "speedup": []}
    for spread in (0, 0.5, 1):
        (row,) = metric(
            varied(spread), "dp_speedup", bandwidth_gbit="1", **ASKED | {"scheme": scheme}
        )
        for name, unit in (("iteration", "_s"), ("speedup", "")):
            low, high = row[f"{name}_low{unit}"], row[f"{name}_high{unit}"]
            assert low <= row[f"{name}{unit}"] <= high
            widths[name].append(high - low)
    assert all(found == sorted(set(found)) for found in widths.values())


def test_few_iterations_leave_the_band_to_the_link() -> None:
    (row,) = metric(varied(1, count=8), "dp_speedup", bandwidth_gbit="1", **ASKED)
    alone = row["compute_s"]
    assert row["band"] == "link; the spread of iterations needs 10, not 8"
    assert row["iteration_low_s"] == pytest.approx(alone + 0.02 / 1.05)
    assert row["iteration_high_s"] == pytest.approx(alone + 0.02 / 0.95)
