"""Search the largest batch whose estimated memory fits a GPU."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from tbd_collectors.argument_parsing import places
from tbd_collectors.collect import Result
from tbd_collectors.collection_request import Command, Workload
from tbd_collectors.plan import MEMORY_LOG
from tbd_collectors.process import CollectionError
from tbd_models.definition import OUT_OF_MEMORY
from tbd_trace import resources
from tbd_trace.errors import UsageError
from tbd_trace.sources.memory_log.reserved import reserved_bytes

_GIB = 1 << 30
_LARGEST = 1 << 24  # an estimate of a model that needs next to no memory would never end


def memory_bytes(device: str, option: str = "--largest-batch") -> int:
    """Return the memory of a device: a number of 2^30 bytes, or the name of a product.

    The number may have a unit: 24GB or 24GiB, 500MB or 500MiB.

    Raises:
        UsageError: neither; ``option`` names the place of the text.
    """
    stated = re.fullmatch(r"([\d.]+) ?([GM])i?B", device.strip(), flags=re.IGNORECASE)
    try:
        size = float(stated[1] if stated else device)
    except ValueError:
        size = _product_gib(device)
    if stated and stated[2] in "Mm":
        size /= 1024
    if not 0 < size < 1 << 20:
        raise UsageError(f"{option} {device!r}: write the memory in GB, such as 11")
    return int(size * _GIB)


def _product_gib(device: str) -> float:
    # The rules are those of the query memory_vs_batch.
    name = re.sub(r"^(NVIDIA |Tesla )+", "", device.strip(), flags=re.IGNORECASE)
    with (resources.data() / "gpu_products.csv").open(encoding="utf-8", newline="") as file:
        rows = sorted(csv.DictReader(file), key=lambda row: not row["compute_capability"])
    for row in rows:
        names = (name, f"GeForce {name}")
        matches = any(
            re.fullmatch(row["name_pattern"], spelling, re.IGNORECASE) for spelling in names
        )
        if matches or row["product"].lower() == device.strip().lower():
            stated = re.search(r"(\d+) ?GB", name)
            if row["memory_gib"] or stated:
                return float(row["memory_gib"] or (stated[1] if stated else 0))
            break
    raise UsageError(
        f"the memory of a GPU named {device!r} is unknown; write its memory in GB, such as 11"
    )


def search_after(
    targets: Sequence[Workload | Command],
    output: Path | None,
    capacity: int,
    *,
    collect_one: Callable[[Workload | Command, Path], Result],
    say: Callable[[str], None],
) -> Callable[[list[Result]], int]:
    """Return a function that continues a sweep of captures and returns the exit code."""
    first = targets[0]
    if (
        not isinstance(first, Workload)
        or len({_apart_from_batch(target) for target in targets}) > 1
    ):
        raise UsageError("--largest-batch needs one model of the suite")
    if (first.framework, first.device) != ("pytorch", "cuda"):
        raise UsageError(
            "--largest-batch models the GPU allocator of PyTorch; use --framework pytorch "
            "--device cuda"
        )

    if capacity <= 0:
        raise UsageError("--largest-batch: the memory outside the allocator fills the device")

    def run(results: list[Result]) -> int:
        def peak_bytes(batch: int) -> int:
            target = first.with_batch_size(batch)
            results.append(collect_one(target, *places([target], output, several=True)))
            if results[-1].status != "ok":
                raise CollectionError(f"batch {batch} could not be estimated")
            return peak_reserved_bytes(results[-1].capture / MEMORY_LOG)

        known = {
            result.document["batch_size"]: peak_reserved_bytes(result.capture / MEMORY_LOG)
            for result in results
        }
        largest = search(known, peak_bytes, capacity)
        sizes = [
            f"{batch} holds {known[batch] / _GIB:.3f} GB"
            for batch in (largest, largest + 1)
            if batch
        ]
        say(f"largest batch {largest} of {capacity / _GIB:.3f} GB, simulated: {', '.join(sizes)}")
        return 0 if largest else OUT_OF_MEMORY

    return run


def _apart_from_batch(target: Workload | Command) -> Workload | Command:
    return target.with_batch_size(1) if isinstance(target, Workload) else target


def peak_reserved_bytes(log: Path) -> int:
    """Return the most bytes that a model of PyTorch's allocator reserves for a memory log."""
    with log.open(encoding="utf-8") as file:
        next(file)  # the header
        events = (json.loads(line) for line in file)
        sized = (
            (number, event["action"], event["address"], event["bytes"], event.get("stream", 0))
            for number, event in enumerate(events)
            if "bytes" in event
        )
        return max((reserved for _, reserved in reserved_bytes(sized)), default=0)


def search(known: dict[int, int], peak_bytes: Callable[[int], int], capacity: int) -> int:
    """Return the largest batch that fits, 0 if none does; add to the peak bytes by batch size."""
    # Peaks can fall as the batch grows, because another size can leave fewer gaps. The result fits
    # and the next batch does not; a still larger one could.
    low = max((batch for batch, size in known.items() if size <= capacity), default=0)
    high = min((batch for batch in known if batch > low), default=0)
    while not high:
        if low >= _LARGEST:
            raise CollectionError(f"a batch of {low:,} still fits; name a smaller device")
        known[2 * low] = peak_bytes(2 * low)
        low, high = (2 * low, 0) if known[2 * low] <= capacity else (low, 2 * low)
    # A line through both ends would mislead: segments make peaks a staircase.
    while high - low > 1:
        middle = (low + high) // 2
        known[middle] = peak_bytes(middle)
        low, high = (middle, high) if known[middle] <= capacity else (low, middle)
    return low
