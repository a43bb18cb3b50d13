"""A model of data-parallel training as plain loops: the oracle of the network predictions.

Every bucket and slice is followed by hand, so that nothing here resembles the closed forms and the
state machine of the queries.
"""

from __future__ import annotations

import csv
import heapq
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

MIB = 2**20


@dataclass(frozen=True)
class Layer:
    """A layer of the forward pass: seconds and bytes."""

    name: str
    forward_s: float
    backward_s: float
    gradient_bytes: float


@dataclass(frozen=True)
class Link:
    """The link of each worker, and what the framework adds to an iteration."""

    gbit_s: float
    latency_s: float = 0.0
    all_reduce_s: float | None = None  # of few bytes; else 2 (workers - 1) latencies
    efficiency: float = 1.0
    host_bytes_per_s: float = math.inf
    optimizer_s: float = 0.0
    tail_s: float = 0.0
    first_bucket_bytes: float = MIB
    bucket_bytes: float = 25 * MIB
    slice_bytes: float = 160_000


TOY = [
    Layer("conv", 0.010, 0.020, 4e6),
    Layer("mid", 0.010, 0.020, 40e6),
    Layer("fc", 0.002, 0.004, 400e6),
]


def read_layers(path: Path) -> list[Layer]:
    with path.open(newline="", encoding="utf-8") as file:
        return [
            Layer(row["name"], *(float(row[key]) for key in ("fwd_s", "bwd_s", "grad_bytes")))
            for row in csv.DictReader(file)
        ]


def write_layers(path: Path, layers: Iterable[Layer]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["name", "fwd_s", "bwd_s", "grad_bytes"])
        for layer in layers:
            times = (repr(layer.forward_s), repr(layer.backward_s))
            writer.writerow([layer.name, *times, repr(layer.gradient_bytes)])
    return path


def transfer_s(size: float, workers: int, link: Link) -> float:
    """Return the time on the link of one worker for ``size`` bytes of gradients."""
    on_link = 2 * (workers - 1) / workers * size / (link.efficiency * link.gbit_s * 1e9 / 8)
    return max(size / link.host_bytes_per_s, on_link) if workers > 1 else 0.0


def ready_times(layers: Sequence[Layer]) -> list[float]:
    """Return when the gradient of each layer is ready, from the begin of the backward pass."""
    ready, now = [0.0] * len(layers), 0.0
    for index in reversed(range(len(layers))):
        now += layers[index].backward_s
        ready[index] = now
    return ready


def buckets(layers: Sequence[Layer], link: Link) -> list[tuple[float, float]]:
    """Return the time at which each bucket is ready, and its bytes."""
    found: list[tuple[float, float]] = []
    ready = ready_times(layers)
    size, at, limit = 0.0, 0.0, link.first_bucket_bytes
    for index in reversed(range(len(layers))):
        if layers[index].gradient_bytes == 0:
            continue
        size += layers[index].gradient_bytes
        at = ready[index]
        if size >= limit:
            found.append((at, size))
            size, limit = 0.0, link.bucket_bytes
    return [*found, (at, size)] if size else found


def iteration_s(layers: Sequence[Layer], workers: int, link: Link, scheme: str) -> float:
    """Return the duration of an iteration."""
    forward = sum(layer.forward_s for layer in layers)
    backward = sum(layer.backward_s for layer in layers)
    rest = link.optimizer_s + link.tail_s
    if workers == 1:
        return forward + backward + rest
    if scheme in ("ps", "p3"):
        return _parameter_server(layers, workers, link, sliced=scheme == "p3") + rest
    if scheme == "fsdp":
        return _sharded(layers, workers, link) + rest
    hops = 2 * (workers - 1) * link.latency_s
    end, started = 0.0, hops if link.all_reduce_s is None else link.all_reduce_s
    for ready, size in buckets(layers, link):
        begin = max(end, ready if scheme == "ddp" else backward)
        end = begin + started + transfer_s(size, workers, link)
    return forward + max(backward, end) + rest


def _blocks(layers: Sequence[Layer]) -> list[list[Layer]]:
    # First the layers before any with parameters; then each of these with those that follow it.
    blocks: list[list[Layer]] = [[]]
    for layer in layers:
        if layer.gradient_bytes:
            blocks.append([])
        blocks[-1].append(layer)
    return blocks


def _sharded(layers: Sequence[Layer], workers: int, link: Link) -> float:
    # Events of a GPU and a link. Work of the GPU is a block in one pass: it needs its gathered
    # parameters, and when it begins, those of the next block of the pass are gathered.
    ahead, *owned = _blocks(layers)
    if not owned:
        return sum(layer.forward_s + layer.backward_s for layer in ahead)
    hops = 2 * (workers - 1) * link.latency_s
    started = hops if link.all_reduce_s is None else link.all_reduce_s
    work = [(block, sum(layer.forward_s for layer in block)) for block in owned]
    work += [(block, sum(layer.backward_s for layer in block)) for block in reversed(owned)]
    first_backward = len(owned)
    heads = (0, first_backward)
    events: list[tuple[float, str, int]] = []
    waiting: list[tuple[str, int]] = []  # for the link
    gathered: set[int] = set()
    now, current, gpu_busy, link_busy = 0.0, 0, True, False
    heapq.heappush(events, (sum(layer.forward_s for layer in ahead), "ahead", 0))
    waiting.append(("gathered", 0))
    while True:
        if waiting and not link_busy:
            kind, index = waiting.pop(0)
            size = sum(layer.gradient_bytes for layer in work[index][0])
            moved = (started + transfer_s(size, workers, link)) / 2
            heapq.heappush(events, (now + moved, kind, index))
            link_busy = True
        if not gpu_busy and current in gathered:
            heapq.heappush(events, (now + work[current][1], "computed", current))
            gpu_busy = True
            if current + 1 < len(work) and current + 1 not in heads:
                waiting.append(("gathered", current + 1))
                continue
        if not events:
            return now
        now, kind, index = heapq.heappop(events)
        if kind in ("gathered", "scattered"):
            link_busy = False
            gathered |= {index} if kind == "gathered" else set()
            continue
        gpu_busy = kind == "behind"
        if kind == "computed":
            current += 1
            if index >= first_backward:
                waiting.append(("scattered", index))
            if current == first_backward:
                waiting.append(("gathered", current))
            if current == len(work):
                left = sum(layer.backward_s for layer in ahead)
                heapq.heappush(events, (now + left, "behind", 0))


def _slices(size: float, most: float) -> Iterator[float]:
    while size > most:
        yield most
        size -= most
    if size > 0:
        yield size


def _parameter_server(layers: Sequence[Layer], workers: int, link: Link, *, sliced: bool) -> float:
    # One message at a time on the link of a worker: each slice is pushed, and pulled `latency_s`
    # after it has left. FIFO sends the message that waits longest; P3 one of the lowest layer,
    # of that the lowest slice.
    ready, counter = ready_times(layers), itertools.count()
    coming: list[tuple[float, int, int, int, float, bool]] = []
    for index in reversed(range(len(layers))):
        most = link.slice_bytes if sliced else math.inf
        for number, size in enumerate(_slices(layers[index].gradient_bytes, most)):
            heapq.heappush(coming, (ready[index], next(counter), index, number, size, False))
    queue: list[tuple[tuple[float, ...], int, int, float, bool]] = []
    now, pulled = 0.0, [0.0] * len(layers)
    while coming or queue:
        while coming and coming[0][0] <= now + 1e-15:
            at, order, index, number, size, is_pull = heapq.heappop(coming)
            key = (index, number, not is_pull) if sliced else (at, order)
            heapq.heappush(queue, (key, index, number, size, is_pull))
        if not queue:
            now = coming[0][0]
            continue
        _, index, number, size, is_pull = heapq.heappop(queue)
        now += transfer_s(size, workers, link) / 2
        if is_pull:
            pulled[index] = max(pulled[index], now + link.latency_s)
        else:
            heapq.heappush(coming, (now + link.latency_s, next(counter), index, number, size, True))
    end = sum(layer.backward_s for layer in layers)
    for layer, at in zip(layers, pulled, strict=True):
        end = max(end, at) + layer.forward_s
    return end


def speedup(layers: Sequence[Layer], workers: int, link: Link, scheme: str) -> float:
    alone = iteration_s(layers, 1, link, scheme)
    return workers * alone / iteration_s(layers, workers, link, scheme)
