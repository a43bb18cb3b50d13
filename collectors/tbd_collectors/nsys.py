"""Record timelines with Nsight Systems and export them to SQLite."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tbd_collectors.collection_request import Command, Workload
from tbd_collectors.nsys_tool import USUAL, Nsys, environment, installed
from tbd_collectors.process import NothingRecordedError
from tbd_collectors.profile_stats import Contents, count_nsys
from tbd_collectors.profiler import (
    PROFILER_API,
    TIMELINE,
    Profiler,
    Run,
    RunRequest,
    Timelines,
)
from tbd_models.instrument.marks import DOMAIN, WINDOW
from tbd_trace.errors import UsageError
from tbd_trace.machine import inspection, nsys_export

__all__ = [
    "PROFILER",
    "SUFFIXES",
    "USUAL",
    "Contents",
    "Nsys",
    "NsysOptions",
    "check",
    "command",
    "environment",
    "export",
    "installed",
    "report",
    "unavailable",
]

# Reports are .qdrep before nsys 2021.4; .qdstrm remains if the importer failed.
SUFFIXES = (".nsys-rep", ".qdrep", ".qdstrm")


@dataclass(frozen=True, slots=True)
class NsysOptions:
    """Events and interval to record."""

    gpu: bool = True  # trace CUDA; False on a machine without a GPU
    # From start to end instead of cudaProfilerStart to cudaProfilerStop; implied without a GPU.
    whole_run: bool = False
    # First NVTX range to record: NAME@DOMAIN, NAME in the default domain, NAME@* in any.
    range_name: str | None = None
    gpu_metrics: str | None = None  # devices to sample, such as 0,1 or all
    memory_usage: bool = False  # trace allocations of GPU memory
    cpu_sampling: bool = False  # and scheduling; nsys 2022.4 sometimes hangs with it
    session: str | None = None  # name by which `stop_command` ends the recording


def command(
    program: Sequence[str], output: Path, options: NsysOptions, tool: Nsys | None = None
) -> list[str]:
    """Return the command line that records a timeline, without options unknown to this nsys.

    ``output`` is the report without suffix, ``tool`` the nsys to use (default: from PATH).
    Raises CollectionError if nsys is missing, UsageError if the report exists.
    """
    used = tool or installed()
    for path in _reports(output):
        if path.exists():
            raise UsageError(f"{path} exists already; choose another name, or remove it")
    wanted = (*_recording(options, used), *_extras(options, used))
    known = [switch for switch in wanted if switch.partition("=")[0] in used.options]
    # nsys expands %h, %p and the like in file names.
    name = str(output).replace("%", "%%")
    return [
        str(used.path), "profile", *known, "--force-overwrite=true", f"--output={name}", *program
    ]  # fmt: skip


def stop_command(options: NsysOptions, tool: Nsys) -> tuple[str, ...]:
    """Return the command that ends a recording while the program runs on, empty without one."""
    if options.session is None or "--session-new" not in tool.options:
        return ()
    return (str(tool.path), "stop", f"--session={options.session}")


def unavailable(options: NsysOptions, tool: Nsys | None = None) -> list[str]:
    """Return the requested options that this nsys lacks."""
    used = tool or installed()
    names = (switch.partition("=")[0] for switch in _extras(options, used))
    return [name for name in names if name not in used.options]


def _recording(options: NsysOptions, tool: Nsys) -> Iterator[str]:
    gpu = ("cuda", "nvtx", "cudnn", "cublas", "osrt")
    traces = gpu if options.gpu else ("nvtx", "osrt")
    yield f"--trace={','.join(name for name in traces if name in tool.traces)}"
    sampled = "process-tree" if options.cpu_sampling else "none"
    yield f"--sample={sampled}"
    yield f"--cpuctxsw={sampled}"
    if options.range_name is not None:
        yield "--capture-range=nvtx"
        yield f"--nvtx-capture={options.range_name}"
    elif options.gpu and not options.whole_run:
        yield "--capture-range=cudaProfilerApi"
    else:
        yield "--capture-range=none"
        if options.session is not None:
            yield f"--session-new={options.session}"
        return
    # By default, the end of the range terminates the program too.
    yield "--capture-range-end=stop"


def _extras(options: NsysOptions, tool: Nsys) -> Iterator[str]:
    # Options that add overhead, so they are recorded on request only.
    if options.gpu_metrics is not None:
        current, former = "--gpu-metrics-devices", "--gpu-metrics-device"
        yield f"{current if current in tool.options else former}={options.gpu_metrics}"
    if options.memory_usage:
        yield "--cuda-memory-usage=true"


def report(output: Path, printed: Sequence[str] = ()) -> Path:
    """Return the report of a run; raise NothingRecordedError if nsys wrote none.

    ``output`` has no suffix, as for ``command``; ``printed`` holds the last lines of nsys.
    """
    # The exit code does not show it: nsys exits with 0 even if it recorded nothing.
    for path in _reports(output):
        if path.is_file():
            return path
    words = printed[-1] if printed else "nothing"
    raise NothingRecordedError(
        f"nsys wrote no report {output}{SUFFIXES[0]} (its output: {words}): the capture range "
        "never began; without a GPU cudaProfilerStart does nothing, so record the whole run or an "
        "NVTX range, and check the range's name and domain"
    )


def _reports(output: Path) -> list[Path]:
    return [output.with_name(output.name + suffix) for suffix in SUFFIXES]


def export(report: Path, *, timeout_s: float = 3600) -> Path:
    """Export a report to a SQLite file beside it; each step may take ``timeout_s`` seconds.

    Raises InputError if nsys or its importer is missing or fails, UsageError if the file exists.
    """
    sqlite = report.with_suffix(".sqlite")
    if sqlite.exists():
        raise UsageError(f"{sqlite} exists already; ingest it, or remove it")
    nsys_export.export(report, sqlite, timeout_s=timeout_s)
    return sqlite


def check(sqlite: Path, *, gpu: bool = False) -> Contents:
    """Count the events of an export; raise CollectionError for another kind of file.

    Raises NothingRecordedError without NVTX ranges, or without kernels if ``gpu``.
    """
    contents = count_nsys(sqlite)
    contents.require(sqlite, gpu=gpu)
    return contents


def _plan(request: RunRequest) -> Run:
    target, output = request.target, request.directory / TIMELINE
    # cudaProfilerStart does nothing on a machine without a GPU, an NVTX range works there too.
    is_marked = isinstance(target, Workload) and not request.on_gpu
    named = f"{WINDOW}@{DOMAIN}" if is_marked else None
    if isinstance(target, Command) and target.capture_range != PROFILER_API:
        named = target.capture_range
    session = None
    if isinstance(target, Command) and target.capture_range is None:
        # Unique, as the directory is, and it begins with a letter.
        session = f"tbd{hashlib.sha256(str(output).encode()).hexdigest()[:12]}"
    options = NsysOptions(
        gpu=request.on_gpu,
        whole_run=request.is_whole_run,
        range_name=named,
        gpu_metrics="0" if request.profiling.gpu_metrics else None,  # workloads use the first GPU
        memory_usage=request.profiling.memory_usage,
        session=session,
    )
    tool = request.find_tool(installed, USUAL)
    return Run(
        TIMELINE,
        "nsys",
        command(request.program(TIMELINE), output, options, tool),
        output,
        environment(),
        lost=tuple(unavailable(options, tool)),
        stop=stop_command(options, tool),
        has_own_group=True,
    )


def _profile(run: Run, printed: Sequence[str], say: Callable[[str], None]) -> Path:
    written = report(run.output, printed)
    say("exporting to SQLite")
    return export(written)


def _check(profile: Path, gpu: bool, _printed: Sequence[str]) -> Contents:
    return check(profile, gpu=gpu)


PROFILER = Profiler("nsys", inspection.nsys, timelines=Timelines(_plan, _profile, _check))
