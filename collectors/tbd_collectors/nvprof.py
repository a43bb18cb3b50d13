"""Timelines and counters with nvprof, for GPUs before compute capability 8.0.

NVTX ranges are part of every timeline. Counting replays each kernel until all its counters are
read, one kernel after the other: times from a metric run are not those of training, and one or two
iterations are enough.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from tbd_collectors.gpu_detection import parsed, read_table
from tbd_collectors.nsight_compute import refuse_forbidden_counters
from tbd_collectors.process import NothingRecordedError, on_path
from tbd_collectors.profile_stats import Contents, count_counted, count_nvprof
from tbd_trace import machine
from tbd_trace.errors import UsageError

_TIMELINE_BELOW = (8, 0)
_METRICS_BELOW = (7, 5)
_COMMON = ("--unified-memory-profiling", "off", "--openacc-profiling", "off")
_OWN = re.compile(r"=+(?:\d+=+)? (.+)")  # ==PROCESS== or ======== before what nvprof itself says


def timeline_command(
    program: Sequence[str],
    output: Path,
    compute_capability: str,
    *,
    whole_run: bool = False,
    tool: str | None = None,
) -> list[str]:
    """Return the command line that records a timeline.

    Args:
        program: what to profile.
        output: the SQLite file; it may not be there.
        compute_capability: the GPU's, such as ``7.0``.
        whole_run: record from the start, rather than between cudaProfilerStart and
            cudaProfilerStop.
        tool: the nvprof to use; the installed one by default.

    Raises:
        CollectionError: nvprof is not installed.
        UsageError: the GPU is too new for nvprof, or the file exists.
    """
    if parsed(compute_capability) >= _TIMELINE_BELOW:
        raise UsageError(
            f"nvprof does not support compute capability {compute_capability}, only those before "
            "8.0: use nsys"
        )
    return [
        tool or installed(), *_window(whole_run), *_COMMON,
        "--export-profile", _file(output), "--force-overwrite", *program,
    ]  # fmt: skip


def select(compute_capability: str) -> tuple[str, ...]:
    """Return the metrics to collect on a GPU.

    Raises:
        UsageError: nvprof does not count on this GPU.
    """
    capability = parsed(compute_capability)
    if capability >= _METRICS_BELOW:
        raise UsageError(
            f"nvprof does not count on compute capability {compute_capability}, only on those "
            "before 7.5: use ncu"
        )
    rows = read_table("nvprof.csv")
    return tuple(row["metric"] for row in rows if parsed(row["since"]) <= capability)


def metric_command(
    program: Sequence[str],
    output: Path,
    compute_capability: str,
    *,
    whole_run: bool = False,
    tool: str | None = None,
) -> list[str]:
    """Return the command line that counts.

    Args:
        program: what to profile.
        output: the SQLite file, which has every kernel's launch configuration beside its
            counters; it may not be there.
        compute_capability: the GPU's, such as ``7.0``.
        whole_run: count from the start, rather than between cudaProfilerStart and
            cudaProfilerStop.
        tool: the nvprof to use; the installed one by default.

    Raises:
        CollectionError: nvprof is not installed.
        UsageError: nvprof does not count on this GPU, or the file exists.
    """
    metrics = select(compute_capability)
    return [
        tool or installed(), *_window(whole_run), *_COMMON,
        "--metrics", ",".join(metrics), "--replay-mode", "kernel",
        "--export-profile", _file(output), "--force-overwrite", *program,
    ]  # fmt: skip


def _window(whole_run: bool) -> tuple[str, str]:
    return "--profile-from-start", "on" if whole_run else "off"


def _file(path: Path) -> str:
    """Return a file name for nvprof, which substitutes %p and the like and would overwrite."""
    if path.exists():
        raise UsageError(f"{path} exists already; choose another name, or remove it")
    return str(path).replace("%", "%%")


def installed() -> str:
    """Return the nvprof on PATH.

    Raises:
        CollectionError: there is none.
    """
    return on_path("nvprof", machine.nvprof)


def check_timeline(profile: Path, said: Sequence[str] = ()) -> Contents:
    """Count what a timeline holds.

    Args:
        profile: the SQLite file.
        said: the last lines of the run's output.

    Raises:
        CollectionError: the file is not a profile.
        NothingRecordedError: there is no file, no NVTX ranges, or no kernels. nvprof exits with 0
            all the same.
    """
    _require_file(profile, said)
    contents = count_nvprof(profile)
    contents.require(profile, gpu=True)
    return contents


def check_metrics(profile: Path, said: Sequence[str] = ()) -> int:
    """Return how many kernels were counted.

    Args:
        profile: the SQLite file.
        said: lines of the run's output.

    Raises:
        CountersNotPermittedError: the driver forbids counting; a timeline is still possible.
        CollectionError: the file is not a profile.
        NothingRecordedError: no kernel was counted. nvprof exits with 0 all the same.
    """
    refuse_forbidden_counters(said)
    _require_file(profile, said)
    kernels = count_counted(profile)
    if kernels == 0:
        raise NothingRecordedError(
            f"{profile}: nvprof counted no kernels (it said: {_warning(said)})"
        )
    return kernels


def _require_file(path: Path, said: Sequence[str]) -> None:
    if not path.is_file():
        raise NothingRecordedError(
            f"nvprof wrote no {path} (it said: {_warning(said)}): nothing was profiled; without "
            "a GPU, or when cudaProfilerStart is never called, nvprof has nothing to write"
        )


def _warning(said: Iterable[str]) -> str:
    """Return the last line that nvprof itself printed."""
    own = [match[1] for line in said if (match := _OWN.match(line))]
    return own[-1] if own else "nothing"
