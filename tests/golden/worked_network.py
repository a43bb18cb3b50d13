"""What more GPUs would gain over the sample's one, by the model that follows every bucket."""

from __future__ import annotations

from functools import cache
from itertools import product
from statistics import median

from network_model import Layer, Link, iteration_s, ready_times, speedup, transfer_s
from sample_facts import Row, layers, row
from worked_layers import layer_time
from worked_time import iteration_timing, percentile

LATENCY_S, UNCERTAINTY = 5e-6, 0.05
WORKERS = (2, 4, 8, 16)
INPUTS = {"evidence": "modelled", "inputs": "gpu time, layers.json"}
BAND = {"band": "link and iterations"}  # ten iterations are in the window
UNMEASURED = dict.fromkeys(("measured_s", "measured_speedup", "error_pct", "measured_by"))


def _scales() -> list[float]:
    """Return how long iterations of a usual, a short and a long kind take, in usual ones."""
    times = _periods()
    assert len(times) >= 10
    return [1, *(percentile(times, percent) / median(times) for percent in (5, 95))]


@cache
def _periods() -> list[int]:
    return [part["period_ns"] for part in iteration_timing() if part["in_window"]]


@cache
def sample_layers(scale: float = 1) -> list[Layer]:
    """Return the layers of layers.json in their order, with their kernel time per iteration."""
    spent = {(part["layer"], part["phase"]): part["iteration_ns"] / 1e9 for part in layer_time()}
    return [
        Layer(
            name,
            scale * (spent.get((name, "forward"), 0) + spent.get((name, "loss"), 0)),
            scale * spent.get((name, "backward"), 0),
            facts["gradient_bytes"],
        )
        for name, facts in layers().items()
    ]


def _link(gbit_s: float, scale: float = 1) -> Link:
    # The rest of an iteration: without it, no layer would wait for the program.
    busy = sum(layer.forward_s + layer.backward_s for layer in sample_layers())
    return Link(gbit_s, LATENCY_S, tail_s=scale * max(0, median(_periods()) / 1e9 - busy))


def dp_speedup() -> list[Row]:
    found, alone = sample_layers(), iteration_s(sample_layers(), 1, _link(1), "ddp")
    rows = []
    for workers in WORKERS:
        for gbit_s in (1.0, 5.0, 10.0, 25.0, 100.0, 400.0):
            # The iterations of a slower and a faster link, each with short and long computation.
            cases = [
                (sample_layers(scale), workers, _link(gbit_s * factor, scale), "ddp")
                for factor, scale in product((1 - UNCERTAINTY, 1 + UNCERTAINTY), _scales())
            ]
            took = iteration_s(found, workers, _link(gbit_s), "ddp")
            gain = speedup(found, workers, _link(gbit_s), "ddp")
            rows.append(
                row(
                    scheme="ddp",
                    workers=workers,
                    bandwidth_gbit=gbit_s,
                    iteration_s=took,
                    iteration_low_s=min(iteration_s(*case) for case in cases),
                    iteration_high_s=max(iteration_s(*case) for case in cases),
                    exposed_s=took - alone,
                    compute_s=alone,
                    speedup=gain,
                    speedup_low=min(speedup(*case) for case in cases),
                    speedup_high=max(speedup(*case) for case in cases),
                    **BAND,
                    efficiency=gain / workers,
                    limited_by="link",
                    **UNMEASURED,
                    **INPUTS,
                )
            )
    return rows


def min_bandwidth() -> list[Row]:
    found = sample_layers()
    size = sum(layer.gradient_bytes for layer in found)
    link = _link(1)
    alone = iteration_s(found, 1, link, "ddp")
    first = min(
        ready
        for layer, ready in zip(found, ready_times(found), strict=True)
        if layer.gradient_bytes
    )
    forward = sum(layer.forward_s for layer in found)
    rows = []
    for workers in WORKERS:
        for share in (0.5, 0.8, 0.9):
            wanted = share * workers

            one_gbit = transfer_s(size, workers, Link(1))
            left = alone / share - alone
            enough, *others = (_smallest(scale, workers, wanted) for scale in _scales())
            rows.append(
                row(
                    scheme="ddp",
                    workers=workers,
                    target_speedup=wanted,
                    target=f"{100 * share:g} %",
                    min_gbit_s=enough,
                    min_low_gbit_s=min(enough, *others) / (1 + UNCERTAINTY),
                    min_high_gbit_s=max(enough, *others) / (1 - UNCERTAINTY),
                    **BAND,
                    full_overlap_gbit_s=one_gbit / (alone / share - link.tail_s - forward - first),
                    no_overlap_gbit_s=one_gbit / left,
                    measured_below_gbit_s=None,
                    measured_enough_gbit_s=None,
                    reason=None,
                    **INPUTS,
                )
            )
    return rows


def _smallest(scale: float, workers: int, wanted: float) -> float:
    """Return the smallest bandwidth for a speed-up of iterations that take `scale` usual ones."""
    found = sample_layers(scale)
    low, high = 1e-3, 1e6
    assert speedup(found, workers, _link(high, scale), "ddp") >= wanted
    for _ in range(100):
        middle = (low + high) / 2
        reaches = speedup(found, workers, _link(middle, scale), "ddp") >= wanted
        low, high = (low, middle) if reaches else (middle, high)
    return high


def comm_overhead() -> list[Row]:
    found, link = sample_layers(), Link(10.0)
    size = sum(layer.gradient_bytes for layer in found)
    rows = []
    for workers in WORKERS:
        group = []
        for position, layer in enumerate(found):
            spent = layer.forward_s + layer.backward_s
            sent = transfer_s(layer.gradient_bytes, workers, link)
            sent += 2 * (workers - 1) * LATENCY_S if layer.gradient_bytes else 0
            group.append(
                row(
                    workers=workers,
                    bandwidth_gbit=10.0,
                    layer=layer.name,
                    position=position,
                    communication_s=sent,
                    compute_s=spent,
                    ratio=sent / spent,
                    gradient_bytes=float(layer.gradient_bytes),
                    gradient_share_pct=100 * layer.gradient_bytes / size,
                    modelled_s=None,
                    deviation_pct=None,
                    basis=None,
                    reason=None,
                    **INPUTS,
                )
            )
        rows += sorted(group, key=lambda r: (-r["ratio"], r["position"]))
    return rows
