"""Format the results as Markdown and JSON."""

from __future__ import annotations

import os
import platform
import re
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.claims import Costs, Ratio, ratios
from benchmarks.measure import Cost

_LIBRARIES = ("tbd-trace", "duckdb", "polars", "pyarrow", "sqlalchemy")


@dataclass(slots=True)
class Result:
    """Measurements on one file."""

    size: str
    file_bytes: int
    kernels: int
    # group -> subject -> one cost per round, or the reason why it was not measured
    groups: dict[str, dict[str, list[Cost] | str]] = field(default_factory=dict)

    @property
    def costs(self) -> Costs:
        """Costs of all measured subjects."""
        subjects = (entry for group in self.groups.values() for entry in group.items())
        return {name: costs for name, costs in subjects if not isinstance(costs, str)}


def machine() -> dict[str, Any]:
    """Return the facts that affect the times: processor, cores, memory, versions."""
    processor = re.search(r"model name\s*:\s*(.*)", _read("/proc/cpuinfo"))
    memory = re.search(r"MemTotal:\s*(\d+)", _read("/proc/meminfo"))
    versions = {name: metadata.version(name) for name in _LIBRARIES}
    return {
        "processor": processor.group(1) if processor else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": int(memory.group(1)) * 1024 if memory else None,
        "system": f"{platform.system()} {platform.release()}",
        "versions": {
            "python": platform.python_version(),
            "sqlite": sqlite3.sqlite_version,
            **versions,
        },
    }


def as_json(results: Sequence[Result]) -> dict[str, Any]:
    """Return all measurements."""
    return {
        "machine": machine(),
        "ratios": {r.size: [asdict(ratio) for ratio in ratios(r.size, r.costs)] for r in results},
        "results": [asdict(result) for result in results],
    }


def as_markdown(results: Sequence[Result]) -> str:
    """Return the tables, ratios first."""
    facts = machine()
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    gigabytes = (facts["memory_bytes"] or 0) / 1e9
    lines = [f"{facts['processor']}, {facts['cores']} cores, {gigabytes:.0f} GB; {versions}.", ""]
    lines += [
        "| size | what takes longer | what takes less | measure | times | wanted | | CPU times |"
    ]
    lines += ["|---|---|---|---|---:|---:|---|---:|"]
    for result in results:
        lines += [_ratio(result.size, ratio) for ratio in ratios(result.size, result.costs)]
    for result in results:
        lines += _tables(result)
    return "\n".join(lines) + "\n"


def _ratio(size: str, ratio: Ratio) -> str:
    claim = ratio.claim
    more = "> " if ratio.at_least else ""
    cells = [
        size,
        claim.slower,
        claim.faster,
        "memory" if claim.memory else "time",
        f"{more}{ratio.value:.2f}",
        f"{claim.target:.2f}",
        "yes" if ratio.reached else "no",
        f"{more}{ratio.cpu:.2f}",
    ]
    return f"| {' | '.join(cells)} |"


def _tables(result: Result) -> Iterator[str]:
    for group, subjects in result.groups.items():
        yield ""
        yield f"### {result.size} ({result.file_bytes / 1e6:,.0f} MB): {group}"
        yield ""
        yield "| what | times the first | wall, s | CPU, s | memory, MB | rounds | |"
        yield "|---|---:|---:|---:|---:|---:|---|"
        # Start-ups and metrics are not alternatives to each other, so they have no reference.
        alone = all(name.startswith("tbd-trace") for name in subjects)
        reference = [] if alone else next(iter(subjects.values()))
        for name, costs in subjects.items():
            yield f"| {name} | {' | '.join(_cells(costs, reference))} |"


def _cells(costs: list[Cost] | str, reference: list[Cost] | str) -> list[str]:
    if isinstance(costs, str):
        return ["", "", "", "", "", costs]
    last = costs[-1]
    note = "ended at the time limit" if last.timed_out else "" if last.usable else last.message[:90]
    more = "> " if last.timed_out else ""
    return [
        _to_reference(costs, reference),
        f"{more}{median(cost.seconds for cost in costs):.2f}",
        f"{more}{median(cost.cpu_seconds for cost in costs):.2f}",
        f"{median(cost.peak_bytes for cost in costs) / 1e6:,.0f}",
        str(len(costs)),
        note.replace("|", "/"),
    ]


def _to_reference(costs: list[Cost], reference: list[Cost] | str) -> str:
    if isinstance(reference, str) or not reference or reference[-1].timed_out:
        return ""
    pairs = zip(costs, reference, strict=False)
    more = "> " if costs[-1].timed_out else ""
    return f"{more}{median(cost.seconds / first.seconds for cost, first in pairs):.2f}"


def _read(path: str) -> str:
    file = Path(path)
    return file.read_text(encoding="utf-8") if file.exists() else ""
