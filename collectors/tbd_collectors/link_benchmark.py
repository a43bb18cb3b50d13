"""Measure all-reduces between the ranks of a job."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tbd_collectors.capture_writer import read_json
from tbd_collectors.process import CollectionError, Completed, run
from tbd_collectors.rank_launch import Launch, together
from tbd_collectors.workload import importable

_TIMEOUT_S = 300.0


def measure_link(
    ranks: Sequence[Launch], python: str, device: str, directory: Path
) -> list[dict[str, Any]]:
    """Return times and bandwidths of all-reduces by size; raise CollectionError if they fail."""
    report = directory / "link.json"
    with importable() as environment:

        def benchmark(launch: Launch) -> Completed:
            return run(
                [
                    *launch.prefix,
                    *(python, "-m", "tbd_models.pytorch.link"),
                    *("--device", device, "--report", str(report)),
                ],
                environment=environment | launch.environment(0),
                directory=Path.cwd(),
                timeout_s=_TIMEOUT_S,
                log=_log(directory, launch),
                stop=launch.stop,
            )

        outcome = together(
            ranks,
            benchmark,
            lambda done: done.returncode != 0,
            lambda launch: _log(directory, launch),
        )
    if outcome.failed is not None:
        outcome.results[outcome.failed].require_success(
            f"the link benchmark on rank {outcome.failed}"
        )
    samples = read_json(report).get("samples")
    if not samples:
        raise CollectionError("the link benchmark wrote no times; look at link.rank0.log")
    report.unlink()
    for launch in ranks:
        _log(directory, launch).unlink()
    return [_summary(sample, len(ranks)) for sample in samples]


def _log(directory: Path, launch: Launch) -> Path:
    return directory / f"link.rank{launch.rank}.log"


def _summary(sample: dict[str, Any], ranks: int) -> dict[str, Any]:
    seconds = statistics.median(sample["seconds"])
    algorithm = sample["bytes"] / seconds
    return {
        "bytes": sample["bytes"],
        "repetitions": len(sample["seconds"]),
        "median_s": seconds,
        "quietest_s": min(sample["seconds"]),
        # As nccl-tests define them: a ring moves 2(N-1)/N of the bytes over each link.
        "algorithm_bytes_per_s": algorithm,
        "bus_bytes_per_s": algorithm * 2 * (ranks - 1) / ranks,
        "seconds": sample["seconds"],
    }


def bus_bandwidth(link: Sequence[dict[str, Any]]) -> float | None:
    """Return the bus bandwidth of the largest all-reduce, None without a benchmark."""
    # Bursts of a shaped link and buffers of the sockets flatter smaller ones.
    return link[-1]["bus_bytes_per_s"] if link else None


def latency(link: Sequence[dict[str, Any]]) -> float | None:
    """Return the time of the smallest all-reduce in seconds, None without a benchmark."""
    return link[0]["median_s"] if link else None
