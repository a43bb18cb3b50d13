"""Hardware counters with Nsight Compute, as CSV.

Every kernel is replayed until all its counters are read, one kernel after the other. That makes
training slower by orders of magnitude: times from such a run are not those of training, and one or
two iterations are enough.
"""

from __future__ import annotations

import csv
import re
import subprocess
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import dropwhile
from pathlib import Path

from tbd_collectors.gpu_detection import CHIPS, parsed, read_table
from tbd_collectors.process import CollectionError, NothingRecordedError, on_path
from tbd_trace import machine
from tbd_trace.errors import UsageError

FIRST = (7, 0)
"""The first compute capability that Nsight Compute supports."""

_QUERY_TIMEOUT_S = 60
_METRIC = re.compile(r"^([a-z][a-z0-9]*__\w+)\s", re.MULTILINE)
_LAUNCH = "launch__"
_FORBIDDEN = "ERR_NVGPUCTRPERM"
_SAID = re.compile(r"^==(ERROR|WARNING)==\s*(.+)$", re.MULTILINE)


class CountersNotPermittedError(CollectionError):
    """The driver keeps its hardware counters from this user. Exit code 1."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Metrics for one kind of GPU.

    Attributes:
        metrics: the names to collect.
        missing: quantities that no metric of this chip tells.
    """

    metrics: tuple[str, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NcuOptions:
    """What to count.

    Attributes:
        metrics: names, as from ``select``.
        whole_run: count from the start, rather than between cudaProfilerStart and
            cudaProfilerStop.
        launch_count: kernels after which counting stops; all when None.
    """

    metrics: tuple[str, ...]
    whole_run: bool = False
    launch_count: int | None = None


def select(compute_capability: str, known: Collection[str] | None = None) -> Selection:
    """Choose the metrics for a GPU.

    A chip that the table lacks gets what all chips have.

    Args:
        compute_capability: such as ``8.0``.
        known: base names of the metrics that the installed ncu knows for the chip, as from
            ``known_metrics``; None takes the table's word for it.

    Raises:
        UsageError: Nsight Compute does not support the GPU.
    """
    if parsed(compute_capability) < FIRST:
        raise UsageError(
            f"Nsight Compute needs compute capability 7.0, this GPU has {compute_capability}: "
            "use nvprof"
        )
    rows = read_table("nsight_compute.csv")
    chip = CHIPS.get(compute_capability)
    chips = [chip] if chip else list(CHIPS.values())
    metrics = {
        row["metric"]: row["quantity"]
        for row in rows
        if all(row[name] == "1" for name in chips)
        and (known is None or _is_among(row["metric"], known))
    }
    quantities = dict.fromkeys(row["quantity"] for row in rows)
    told = set(metrics.values())
    return Selection(tuple(metrics), tuple(name for name in quantities if name not in told))


def _is_among(metric: str, known: Collection[str]) -> bool:
    # ncu does not list what it knows of the launch itself.
    return metric.startswith(_LAUNCH) or metric.partition(".")[0] in known


def known_metrics(compute_capability: str) -> frozenset[str] | None:
    """Ask the installed ncu which metrics it knows for a chip; one unknown name would stop it.

    Returns:
        Base names, without suffixes such as ``.sum``; None when ncu does not list this chip.

    Raises:
        CollectionError: ncu is not installed, or does not run.
    """
    chip = CHIPS.get(compute_capability)
    if chip is None:
        return None
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
    """Return the command line that counts.

    Args:
        program: what to profile, with the processes that it starts.
        output: the CSV file; it may not be there.
        options: what to count.
        tool: the ncu to use; the installed one by default.

    Raises:
        CollectionError: ncu is not installed.
        UsageError: the file exists, or there is nothing to count.
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
        # Fixed clocks would be another machine than the timeline's.
        "--clock-control", "none",
        "--target-processes", "all",
        "--replay-mode", "kernel",
        *([] if count is None else ["--launch-count", str(count)]),
        "--log-file", str(output),
        *program,
    ]  # fmt: skip


def installed() -> str:
    """Return the ncu on PATH.

    Raises:
        CollectionError: there is none.
    """
    return on_path("ncu", machine.ncu)


def check(table: Path, said: Iterable[str] = ()) -> int:
    """Return how many kernels were counted.

    Args:
        table: the CSV file.
        said: the last lines of the run's output.

    Raises:
        CountersNotPermittedError: the driver forbids counting; a timeline is still possible.
        NothingRecordedError: no kernel was counted. ncu exits with 0 all the same.
    """
    text = table.read_text(encoding="utf-8", errors="replace") if table.is_file() else ""
    refuse_forbidden_counters([text, *said])
    lines = dropwhile(lambda line: not line.startswith('"ID"'), text.splitlines())
    # The header comes again for every process; the row of units has no ID.
    kernels = sum(1 for row in csv.reader(lines) if row and row[0].isdigit())
    if kernels == 0:
        reasons = [match[2] for match in _SAID.finditer("\n".join([text, *said]))]
        raise NothingRecordedError(
            f"{table}: ncu counted no kernels (it said: {reasons[-1] if reasons else 'nothing'}): "
            "count between cudaProfilerStart and cudaProfilerStop, or the whole run, on a GPU"
        )
    return kernels


def refuse_forbidden_counters(said: Iterable[str]) -> None:
    """Look whether a profiler said that counters are for the administrator only.

    Raises:
        CountersNotPermittedError: it did.
    """
    if any(_FORBIDDEN in text for text in said):
        raise CountersNotPermittedError(
            f"the driver keeps its hardware counters from this user ({_FORBIDDEN}): load the "
            "module nvidia with NVreg_RestrictProfilingToAdminUsers=0, or run as root (a "
            "container needs --cap-add SYS_ADMIN); timelines do not need counters"
        )
