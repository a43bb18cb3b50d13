"""Record timelines and counters with nvprof, for GPUs before compute capability 8.0.

For counters nvprof serializes kernels and replays each until all its counters are read: the run's
times are meaningless, and one or two iterations suffice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from tbd_collectors.gpu_detection import parsed, read_table
from tbd_collectors.nsight_compute import refuse_forbidden_counters
from tbd_collectors.process import NothingRecordedError, on_path
from tbd_collectors.profile_stats import Contents, count_counted, count_nvprof
from tbd_collectors.profiler import (
    COUNTERS,
    TIMELINE,
    Counters,
    Profiler,
    Run,
    RunRequest,
    Timelines,
)
from tbd_trace.errors import UsageError
from tbd_trace.machine import inspection

# CUDA 11's nvprof: timelines end with Volta and Turing, counters with Volta.
_TIMELINE_BELOW = (8, 0)
_METRICS_BELOW = (7, 5)
# Both add activity records to the profile that no metric uses.
_COMMON = ("--unified-memory-profiling", "off", "--openacc-profiling", "off")
_MESSAGE = re.compile(r"=+(?:\d+=+)? (.+)")  # nvprof's own lines start with ==PID== or ========


def timeline_command(
    program: Sequence[str],
    output: Path,
    compute_capability: str,
    *,
    whole_run: bool = False,
    tool: str | None = None,
) -> list[str]:
    """Return the command line that records a timeline to the SQLite file ``output``.

    With ``whole_run`` from the start, otherwise from cudaProfilerStart to cudaProfilerStop;
    ``tool`` is the nvprof to use (default: from PATH). Raises CollectionError if it is missing,
    UsageError if the file exists or the GPU is too new.
    """
    # Before installed(): advice to install nvprof would be wrong for a new GPU.
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
    """Return the metrics to collect; raise UsageError if nvprof cannot count on the GPU."""
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
    """Return the command line that collects counters; see :func:`timeline_command`."""
    metrics = select(compute_capability)
    return [
        tool or installed(), *_window(whole_run), *_COMMON,
        "--metrics", ",".join(metrics), "--replay-mode", "kernel",
        "--export-profile", _file(output), "--force-overwrite", *program,
    ]  # fmt: skip


def _window(whole_run: bool) -> tuple[str, str]:
    return "--profile-from-start", "on" if whole_run else "off"


def _file(path: Path) -> str:
    if path.exists():
        raise UsageError(f"{path} exists already; choose another name, or remove it")
    # nvprof expands %p and the like in file names.
    return str(path).replace("%", "%%")


def installed() -> str:
    """Return nvprof from PATH; raise CollectionError if it is missing."""
    return on_path("nvprof", inspection.nvprof)


def check_timeline(profile: Path, output: Sequence[str] = ()) -> Contents:
    """Count the events of a timeline; ``output`` holds the last lines that the run printed.

    Raises CollectionError if the file is not a profile, NothingRecordedError without ranges or
    kernels: nvprof exits with 0 even then.
    """
    _require_file(profile, output)
    contents = count_nvprof(profile)
    contents.require(profile, gpu=True)
    return contents


def check_metrics(profile: Path, output: Sequence[str] = ()) -> int:
    """Return the number of kernels with counters; see :func:`check_timeline`.

    Raises CountersNotPermittedError too, if the driver denies access to counters.
    """
    refuse_forbidden_counters(output)
    _require_file(profile, output)
    kernels = count_counted(profile)
    if kernels == 0:
        raise NothingRecordedError(
            f"{profile}: nvprof counted no kernels (its output: {_last_message(output)})"
        )
    return kernels


def _require_file(path: Path, output: Sequence[str]) -> None:
    if not path.is_file():
        raise NothingRecordedError(
            f"nvprof wrote no {path} (its output: {_last_message(output)}): nothing was profiled; "
            "without a GPU or a call of cudaProfilerStart nvprof has nothing to write"
        )


def _last_message(output: Iterable[str]) -> str:
    messages = [match[1] for line in output if (match := _MESSAGE.match(line))]
    return messages[-1] if messages else "nothing"


def _plan_timeline(request: RunRequest) -> Run:
    if request.compute_capability is None:
        raise UsageError("nvprof records only GPU work, and there is no GPU; use nsys")
    output = request.directory / f"{TIMELINE}.nvvp"
    # Not looked up yet: whether nvprof supports the GPU matters before it is installed.
    tool = None if request.missing is None else request.find_tool(installed, "nvprof")
    argv = timeline_command(
        request.program(TIMELINE),
        output,
        request.compute_capability,
        whole_run=request.is_whole_run,
        tool=tool,
    )
    return Run(TIMELINE, "nvprof", argv, output)


def _plan_counters(request: RunRequest) -> Run:
    output = request.directory / f"{COUNTERS}.nvvp"
    tool = request.find_tool(installed, "nvprof")
    argv = metric_command(
        request.program(COUNTERS),
        output,
        str(request.compute_capability),
        whole_run=request.is_whole_run,
        tool=tool,
    )
    return Run(COUNTERS, "nvprof", argv, output)


def _profile(run: Run, printed: Sequence[str], _say: Callable[[str], None]) -> Path:
    _require_file(run.output, printed)
    return run.output


def _check(profile: Path, _gpu: bool, printed: Sequence[str]) -> Contents:
    return check_timeline(profile, printed)


PROFILER = Profiler(
    "nvprof",
    inspection.nvprof,
    timelines=Timelines(_plan_timeline, _profile, _check),
    counters=Counters(
        lambda capability: parsed(capability) < _METRICS_BELOW, _plan_counters, check_metrics
    ),
)
