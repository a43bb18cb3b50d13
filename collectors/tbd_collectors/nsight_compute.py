"""Collect hardware counters with Nsight Compute as CSV.

ncu serializes kernels and replays each until all its counters are read, which slows training down
by orders of magnitude: the run's times are meaningless, and one or two iterations suffice.
"""

from __future__ import annotations

import csv
import re
import subprocess
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import dropwhile
from pathlib import Path

from tbd_collectors.gpu_detection import CHIPS, parsed, read_table
from tbd_collectors.process import CollectionError, NothingRecordedError, on_path
from tbd_collectors.profiler import COUNTERS, Counters, Profiler, Run, RunRequest
from tbd_trace.errors import UsageError
from tbd_trace.machine import inspection

FIRST = (7, 0)  # first compute capability that Nsight Compute supports

_QUERY_TIMEOUT_S = 60
_METRIC = re.compile(r"^([a-z][a-z0-9]*__\w+)\s", re.MULTILINE)
_LAUNCH = "launch__"
_FORBIDDEN = "ERR_NVGPUCTRPERM"
_MESSAGE = re.compile(r"^==(ERROR|WARNING)==\s*(.+)$", re.MULTILINE)


class CountersNotPermittedError(CollectionError):
    """The driver denies this user access to hardware counters. Exit code 1."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Metrics for a GPU model."""

    metrics: tuple[str, ...]  # names to collect
    missing: tuple[str, ...]  # quantities for which this chip has no metric


@dataclass(frozen=True, slots=True)
class NcuOptions:
    """Metrics and kernels to collect."""

    metrics: tuple[str, ...]  # names, as from ``select``
    whole_run: bool = False  # otherwise from cudaProfilerStart to cudaProfilerStop
    launch_count: int | None = None  # kernels after which counting stops, None for all


def select(compute_capability: str, known: Collection[str] | None = None) -> Selection:
    """Select the metrics for a GPU; raise UsageError if Nsight Compute does not support it.

    ``known`` holds base names from ``known_metrics``; None trusts the table.
    """
    if parsed(compute_capability) < FIRST:
        raise UsageError(
            f"Nsight Compute needs compute capability 7.0, this GPU has {compute_capability}: "
            "use nvprof"
        )
    rows = read_table("nsight_compute.csv")
    chip = CHIPS.get(compute_capability)
    # A chip newer than the table gets the metrics that all chips have.
    chips = [chip] if chip else list(CHIPS.values())
    metrics = {
        row["metric"]: row["quantity"]
        for row in rows
        if all(row[name] == "1" for name in chips)
        and (known is None or _is_among(row["metric"], known))
    }
    quantities = dict.fromkeys(row["quantity"] for row in rows)
    covered = set(metrics.values())
    return Selection(tuple(metrics), tuple(name for name in quantities if name not in covered))


def _is_among(metric: str, known: Collection[str]) -> bool:
    # --query-metrics does not list the launch__ metrics, which every chip has.
    return metric.startswith(_LAUNCH) or metric.partition(".")[0] in known


def known_metrics(compute_capability: str) -> frozenset[str] | None:
    """Return base names (no ``.sum``) of ncu's metrics for a chip, None if ncu does not list it.

    Raises CollectionError if ncu is missing or does not run.
    """
    chip = CHIPS.get(compute_capability)
    if chip is None:
        return None
    # ncu refuses to start for a single unknown name, so older versions must be asked first.
    argv = [installed(), "--query-metrics", "--chips", chip.lower()]
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=_QUERY_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CollectionError(f"{argv[0]}: cannot be run ({error}); reinstall it") from error
    names = frozenset(_METRIC.findall(done.stdout)) if done.returncode == 0 else frozenset()
    return names or None


def command(
    program: Sequence[str], output: Path, options: NcuOptions, tool: str | None = None
) -> list[str]:
    """Return the ncu command line for ``program`` and its child processes.

    ``output`` is the CSV file, ``tool`` the ncu to use (default: from PATH). Raises
    CollectionError if ncu is missing, UsageError if the file exists or there are no metrics.
    """
    if output.exists():
        raise UsageError(f"{output} exists already; choose another name, or remove it")
    if not options.metrics:
        raise UsageError("no metrics to collect: name at least one")
    count = options.launch_count
    return [
        tool or installed(),
        "--csv", "--page", "raw", "--print-units", "base",
        "--metrics", ",".join(options.metrics),
        "--profile-from-start", "on" if options.whole_run else "off",
        # ncu locks clocks to base by default; the counters should match the timeline's clocks.
        "--clock-control", "none",
        "--target-processes", "all",
        "--replay-mode", "kernel",
        *([] if count is None else ["--launch-count", str(count)]),
        "--log-file", str(output),
        *program,
    ]  # fmt: skip


def installed() -> str:
    """Return ncu from PATH; raise CollectionError if it is missing."""
    return on_path("ncu", inspection.ncu)


def check(table: Path, output: Iterable[str] = ()) -> int:
    """Return the number of kernels in a CSV file; ``output`` holds the run's last lines.

    Raises CountersNotPermittedError if the driver denies access to counters, NothingRecordedError
    without kernels: ncu exits with 0 even then.
    """
    text = table.read_text(encoding="utf-8", errors="replace") if table.is_file() else ""
    refuse_forbidden_counters([text, *output])
    lines = dropwhile(lambda line: not line.startswith('"ID"'), text.splitlines())
    # Each process writes the header again; the row of units has no ID.
    kernels = sum(1 for row in csv.reader(lines) if row and row[0].isdigit())
    if kernels == 0:
        reasons = [match[2] for match in _MESSAGE.finditer("\n".join([text, *output]))]
        reason = reasons[-1] if reasons else "nothing"
        raise NothingRecordedError(
            f"{table}: ncu counted no kernels (its output: {reason}): "
            "count between cudaProfilerStart and cudaProfilerStop, or the whole run, on a GPU"
        )
    return kernels


def refuse_forbidden_counters(output: Iterable[str]) -> None:
    """Raise CountersNotPermittedError if a profiler's output reports missing permission."""
    if any(_FORBIDDEN in text for text in output):
        raise CountersNotPermittedError(
            f"the driver denies this user access to hardware counters ({_FORBIDDEN}): load the "
            "module nvidia with NVreg_RestrictProfilingToAdminUsers=0, or run as root (a "
            "container needs --cap-add SYS_ADMIN); timelines do not need counters"
        )


def _plan(request: RunRequest) -> Run:
    capability = str(request.compute_capability)
    output = request.directory / f"{COUNTERS}.csv"
    tool = request.find_tool(installed, "ncu")
    known = request.find_tool(partial(known_metrics, capability), None)
    options = NcuOptions(select(capability, known).metrics, whole_run=request.is_whole_run)
    return Run(COUNTERS, "ncu", command(request.program(COUNTERS), output, options, tool), output)


PROFILER = Profiler(
    "ncu",
    inspection.ncu,
    counters=Counters(lambda capability: parsed(capability) >= FIRST, _plan, check),
)
