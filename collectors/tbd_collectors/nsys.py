"""Timelines with Nsight Systems: the command line, the report, and its export to SQLite."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tbd_collectors.nsys_tool import USUAL, Nsys, environment, installed
from tbd_collectors.process import NothingRecordedError
from tbd_collectors.profile_stats import Contents, count_nsys
from tbd_trace import nsys_export
from tbd_trace.errors import UsageError

__all__ = [
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

SUFFIXES = (".nsys-rep", ".qdrep", ".qdstrm")


@dataclass(frozen=True, slots=True)
class NsysOptions:
    """What to record.

    Attributes:
        gpu: trace CUDA; false on a machine without a GPU.
        whole_run: record from start to end, rather than between cudaProfilerStart and
            cudaProfilerStop. Without a GPU it is so anyway.
        range_name: record the first NVTX range of this name instead, ``NAME@DOMAIN`` (``NAME``
            alone is in the default domain, ``NAME@*`` in any).
        gpu_metrics: devices whose periodic metrics are sampled, such as ``0,1`` or ``all``.
        memory_usage: trace allocations of GPU memory.
        cpu_sampling: sample the CPU and trace its scheduling. nsys 2022.4 sometimes hangs with it.
    """

    gpu: bool = True
    whole_run: bool = False
    range_name: str | None = None
    gpu_metrics: str | None = None
    memory_usage: bool = False
    cpu_sampling: bool = False


def command(
    program: Sequence[str], output: Path, options: NsysOptions, tool: Nsys | None = None
) -> list[str]:
    """Return the command line that records a timeline.

    Options that this nsys does not know are left out; ``unavailable`` names them.

    Args:
        program: what to profile.
        output: the report without its suffix; no report may be there.
        options: what to record.
        tool: the nsys to use; the installed one by default.

    Raises:
        CollectionError: nsys is not installed.
        UsageError: there is a report already.
    """
    used = tool or installed()
    for path in _reports(output):
        if path.exists():
            raise UsageError(f"{path} exists already; choose another name, or remove it")
    wanted = (*_recording(options, used), *_extras(options, used))
    known = [switch for switch in wanted if switch.partition("=")[0] in used.options]
    # nsys substitutes %h and the like in file names.
    name = str(output).replace("%", "%%")
    return [
        str(used.path), "profile", *known, "--force-overwrite=true", f"--output={name}", *program
    ]  # fmt: skip


def unavailable(options: NsysOptions, tool: Nsys | None = None) -> list[str]:
    """Return the options that were asked for and that this nsys lacks."""
    used = tool or installed()
    names = (switch.partition("=")[0] for switch in _extras(options, used))
    return [name for name in names if name not in used.options]


def _recording(options: NsysOptions, tool: Nsys) -> Iterator[str]:
    """Yield what is traced, and when."""
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
        return
    # The default ends the program as well.
    yield "--capture-range-end=stop"


def _extras(options: NsysOptions, tool: Nsys) -> Iterator[str]:
    """Yield what costs more and is recorded on request."""
    if options.gpu_metrics is not None:
        current, former = "--gpu-metrics-devices", "--gpu-metrics-device"
        yield f"{current if current in tool.options else former}={options.gpu_metrics}"
    if options.memory_usage:
        yield "--cuda-memory-usage=true"


def report(output: Path, said: Sequence[str] = ()) -> Path:
    """Return the report that a run has written.

    Args:
        output: the report without its suffix, as given to ``command``.
        said: the last lines that nsys printed.

    Raises:
        NothingRecordedError: there is none. nsys exits with 0 all the same.
    """
    for path in _reports(output):
        if path.is_file():
            return path
    words = said[-1] if said else "nothing"
    raise NothingRecordedError(
        f"nsys wrote no report {output}{SUFFIXES[0]} (it said: {words}): the capture range "
        "never began; without a GPU cudaProfilerStart does nothing, so record the whole run or an "
        "NVTX range, and check the range's name and domain"
    )


def _reports(output: Path) -> list[Path]:
    return [output.with_name(output.name + suffix) for suffix in SUFFIXES]


def export(report: Path, *, timeout_s: float = 3600) -> Path:
    """Export a report to SQLite beside it.

    Args:
        report: a ``.nsys-rep``, ``.qdrep`` or ``.qdstrm`` file.
        timeout_s: seconds that each step may take.

    Raises:
        InputError: nsys or its importer is not installed, or cannot read the report.
        UsageError: there is such a SQLite file already.
    """
    sqlite = report.with_suffix(".sqlite")
    if sqlite.exists():
        raise UsageError(f"{sqlite} exists already; ingest it, or remove it")
    nsys_export.export(report, sqlite, timeout_s=timeout_s)
    return sqlite


def check(sqlite: Path, *, gpu: bool = False) -> Contents:
    """Count what an export holds, since nsys exits with 0 whether it recorded anything or not.

    Args:
        sqlite: the export.
        gpu: whether the run used a GPU, and so must have kernels.

    Raises:
        CollectionError: the file is not an export.
        NothingRecordedError: there are no NVTX ranges, or no kernels on a GPU.
    """
    contents = count_nsys(sqlite)
    contents.require(sqlite, gpu=gpu)
    return contents
