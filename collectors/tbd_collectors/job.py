"""Collect the captures of all ranks of a job, at several link rates; write job.json."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tbd_collectors import workload
from tbd_collectors.capture_writer import keeps_earlier, write_json, written
from tbd_collectors.collect import Result, collect
from tbd_collectors.collection_request import Command, Profiling, Workload
from tbd_collectors.link_benchmark import bus_bandwidth, latency, measure_link
from tbd_collectors.network_namespaces import Link, Namespaces, namespaces
from tbd_collectors.process import CollectionError
from tbd_collectors.rank_launch import Launch, launches, together
from tbd_trace.redact.secrets import without_secrets
from tbd_trace.runtime.stop_signals import cause, exit_code, saving_records

JOB = "job.json"
_RUNS = 2  # throughput and timeline
_STABLE = 0.05  # largest standard deviation / mean of the iterations of a stable point


@dataclass(frozen=True, slots=True)
class JobRequest:
    """Ranks to run, and the links between them."""

    target: Workload | Command
    profiling: Profiling
    ranks: int
    links: Sequence[Link] = ()  # empty for the machine's own network
    python: str | None = None  # interpreter with PyTorch for the link benchmark


@dataclass(slots=True)
class JobResult:
    """Outcome of a job."""

    document: dict[str, Any] = field(default_factory=dict)  # content of job.json
    status: str = "ok"  # ok, failed or interrupted
    reason: str = ""
    exit_code: int = 0


Say = Callable[[str], None]


def collect_job(
    request: JobRequest, capture: Path, *, force: bool, say: Say, on_line: Say
) -> JobResult:
    """Collect a job into a directory; see docs/reference/capture_directory.md.

    A rank that fails stops the others, and leaves a directory whose status says so.

    Raises:
        UsageError: the workload cannot run as requested.
        CollectionError: namespaces or a profiler are missing, or the link benchmark fails.
        KeyboardInterrupt: after Ctrl-C; the captures so far are written.
    """
    with saving_records(), written(capture, force) as directory:
        session = _Session(request, directory, capture, say, on_line)
        interrupt = session.execute()
        result = session.finish()
        if keeps_earlier(capture, directory):
            result.reason += "; nothing is recorded, so the earlier job is kept"
    if interrupt is not None:
        raise interrupt
    return result


class _Failed(Exception):
    # The remaining points are skipped.
    pass


class _Session:
    def __init__(
        self, request: JobRequest, directory: Path, capture: Path, say: Say, on_line: Say
    ) -> None:
        self._request = request
        self._directory = directory
        self._capture = capture
        self._say = say
        self._on_line = on_line
        self._result = JobResult()
        self._points: list[dict[str, Any]] = []
        self._host: list[dict[str, Any]] = []  # the link without a limit

    def execute(self) -> KeyboardInterrupt | None:
        """Run everything; return what interrupted it, if anything did."""
        try:
            if not self._request.links:
                self._point("", self._request.ranks, None, None)
                return None
            with namespaces(self._request.ranks) as within:
                self._shaped(within)
        except _Failed:
            pass
        except CollectionError as error:
            # Before the first point there is nothing to keep.
            if not self._points:
                raise
            self._result.status, self._result.reason = "failed", str(error)
            self._result.exit_code = error.exit_code
        except KeyboardInterrupt as interrupt:
            self._result.status = "interrupted"
            self._result.reason = f"interrupted by {cause(interrupt)}"
            self._result.exit_code = exit_code(interrupt)
            return interrupt
        return None

    def _shaped(self, within: Namespaces) -> None:
        links = self._request.links
        for link in links:
            within.shape(link)  # so that what the machine cannot do is refused before all runs
        within.shape(Link())
        self._host = self._link(within)
        # One rank before and after shows whether the machine changed.
        self._point("alone-first", 1, None, None)
        for link in links:
            within.shape(link)
            name = f"bandwidth={link.title}" if len(links) > 1 else ""
            self._point(name, self._request.ranks, link, within)
        self._point("alone-last", 1, None, None)

    def _link(self, within: Namespaces | None) -> list[dict[str, Any]]:
        request = self._request
        if request.python is None or request.ranks == 1:
            return []
        self._say("link benchmark")
        ranks = launches(request.ranks, 1, within)
        return measure_link(ranks, request.python, request.target.device, self._directory)

    def _point(self, name: str, ranks: int, link: Link | None, within: Namespaces | None) -> None:
        place = self._directory / name
        place.mkdir(exist_ok=True)
        samples = self._link(within) if ranks > 1 else []
        self._say(", ".join(filter(None, [name, f"{ranks} ranks" if ranks > 1 else ""])))
        before = os.getloadavg()[0]
        started = launches(ranks, _RUNS, within, share=self._request.ranks)
        outcome = together(
            started,
            lambda launch: self._collect(launch, place),
            lambda result: result.status not in ("ok", "interrupted"),
            lambda launch: _log(place, launch),
        )
        times = times_of([result.document for result in outcome.results])
        self._points.append({
            "directory": name or ".",
            "world_size": ranks,
            "bandwidth_bits_per_s": link.bits_per_s if link else None,
            "latency_added_s": link.latency_s if link else None,
            "status": "ok" if outcome.failed is None else "failed",
            "iteration_s": times,
            **statistics_of(times),
            "load": {"before": before, "after": os.getloadavg()[0], "cores": os.cpu_count()},
            "link": samples,
            "commands": [self._command(launch) for launch in started],
        })  # fmt: skip
        if outcome.failed is not None:
            failed = outcome.results[outcome.failed]
            own = _log(place, started[outcome.failed]).relative_to(self._directory)
            log = self._capture / own
            self._result.status, self._result.exit_code = failed.status, failed.exit_code or 1
            self._result.reason = (
                f"rank {outcome.failed} failed ({failed.reason}); its output is in {log}"
            )
            raise _Failed

    def _collect(self, launch: Launch, place: Path) -> Result:
        def say(text: str) -> None:
            if launch.rank == 0:
                self._say(text)

        return collect(
            self._request.target,
            self._request.profiling,
            place / f"rank={launch.rank}",
            say=say,
            on_line=self._on_line if launch.rank == 0 else lambda _line: None,
            launch=launch,
        )

    def _command(self, launch: Launch) -> list[str]:
        target = self._request.target
        words = target.arguments if isinstance(target, Command) else workload.command(target)
        return without_secrets([*launch.prefix, *words])

    def finish(self) -> JobResult:
        """Write job.json and return the outcome."""
        request, result = self._request, self._result
        target = request.target
        speedups(self._points, request.ranks)
        result.document = {
            "format_version": 1,
            "status": result.status,
            "reason": result.reason.replace(f"{self._capture}/", "") or None,
            "world_size": request.ranks,
            "model": target.model if isinstance(target, Workload) else None,
            "scheme": target.scheme if isinstance(target, Workload) else None,
            "profiler": request.profiling.timeline,
            "host_link": self._host or None,
            "points": self._points,
        }
        write_json(self._directory / JOB, result.document)
        return result


def _log(place: Path, launch: Launch) -> Path:
    directory = place / f"rank={launch.rank}"
    timeline = directory / "timeline.log"
    return timeline if timeline.is_file() else directory / "throughput.log"


def times_of(documents: Sequence[dict[str, Any]]) -> list[float]:
    """Return of each iteration the longest over the ranks, in seconds, but for the first.

    Args:
        documents: content of the ranks' capture.json. Without times of a rank there are none.
    """
    by_rank = []
    for document in documents:
        timing = document.get("throughput") or document.get("profiled") or {}
        by_rank.append(timing.get("iteration_ns") or [])
    periods = [max(ranks) / 1e9 for ranks in zip(*by_rank, strict=False)]
    return periods[1:] if len(periods) > 2 else periods  # the first waits for the slowest start


def statistics_of(times: Sequence[float]) -> dict[str, Any]:
    """Return median, minimum and variation of the times of iterations, for job.json."""
    if not times:
        return {}
    variation = statistics.stdev(times) / statistics.fmean(times) if len(times) > 1 else None
    return {
        "median_s": statistics.median(times),
        "quietest_s": min(times),
        "variation": variation,
        "is_stable": variation is not None and variation <= _STABLE,
    }


def speedups(points: Sequence[dict[str, Any]], ranks: int) -> None:
    """Add to each point the speed-up over one rank, by the quietest iterations."""
    alone = [p["quietest_s"] for p in points if p["world_size"] == 1 and p.get("quietest_s")]
    if not alone:
        return
    for point in points:
        if point["world_size"] == ranks and point.get("quietest_s"):
            point["speedup"] = ranks * min(alone) / point["quietest_s"]


def rows(result: JobResult) -> list[dict[str, Any]]:
    """Return a row for each point, to print."""
    return [
        {
            "capture": point["directory"],
            "status": point["status"],
            "ranks": point["world_size"],
            "bandwidth_bits_per_s": point["bandwidth_bits_per_s"],
            "median_s": point.get("median_s"),
            "quietest_s": point.get("quietest_s"),
            "variation": point.get("variation"),
            "stable": point.get("is_stable"),
            "speedup": point.get("speedup"),
            "bus_bytes_per_s": bus_bandwidth(point["link"]),
            "latency_s": latency(point["link"]),
            "load": point["load"]["before"],
        }
        for point in result.document["points"]
    ]
