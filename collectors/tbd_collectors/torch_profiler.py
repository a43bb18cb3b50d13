"""Record timelines with torch.profiler, which runs inside the program."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tbd_collectors.collection_request import Command
from tbd_collectors.process import CollectionError, NoRangesError, NothingRecordedError
from tbd_collectors.profile_stats import Contents
from tbd_collectors.profiler import TIMELINE, Profiler, Run, RunRequest, Timelines
from tbd_models.instrument.marks import TRACE_VARIABLE
from tbd_models.instrument.trace_file import compress
from tbd_trace.errors import UsageError
from tbd_trace.machine import inspection
from tbd_trace.sources.unpacked import Unpacked

FILE = f"{TIMELINE}.pt.trace.json.gz"
WRITTEN = f"{TIMELINE}.pt.trace.json"
"""File that the program writes: uncompressed, so that the training soon goes on."""
_BLOCK = 1 << 20
_LEAST_FREE = 1 << 20  # bytes; a full disk can have a few left
_CATEGORY = re.compile(rb'"cat"\s*:\s*"(user_annotation|kernel|cuda_runtime|cuda_driver)"')
_LONGEST = 64  # a match across blocks is shorter


def _plan(request: RunRequest) -> Run:
    target, profiling = request.target, request.profiling
    output = request.directory / WRITTEN
    lost = ("--gpu-metrics",) if profiling.gpu_metrics else ()
    if isinstance(target, Command):
        if target.capture_range is not None:
            raise UsageError(
                "--capture-range is for nsys and nvprof; for torch, --warmup and --iterations "
                "choose the iterations"
            )
        asked: dict[str, Any] = {
            "trace": str(output),
            "report": str(request.directory / f"{TIMELINE}.json"),
            "iterations": target.iterations,
            "warmup": target.warmup,
            "memory": profiling.memory_usage,
        }
        variables = {TRACE_VARIABLE: json.dumps(asked)}
        return Run(
            TIMELINE, "torch", list(target.arguments), output, variables, lost, in_program=True
        )
    if target.framework != "pytorch":
        raise UsageError(f"torch.profiler does not record {target.framework}; use --profiler nsys")
    argv = request.program(TIMELINE, torch_trace=output)
    return Run(TIMELINE, "torch", argv, output, lost=lost, in_program=True)


def _profile(run: Run, _printed: Sequence[str], say: Callable[[str], None]) -> Path:
    if not run.output.is_file():
        if shutil.disk_usage(run.output.parent).free < _LEAST_FREE:
            raise CollectionError(
                "the trace could not be written: the disk is full; free space, or choose another -o"
            )
        raise NoRangesError("nothing was recorded")
    say("compressing the trace")
    trace = run.output.with_name(FILE)
    compress(run.output, trace)
    return trace


def check(trace: Path, *, gpu: bool = False) -> Contents:
    """Count events; raise NoRangesError without ranges.

    Raises NothingRecordedError without kernels if ``gpu``.
    """
    contents = count(trace)
    if contents.ranges == 0:
        advice = ", so iterations are unknown"
        raise NoRangesError(f"{trace}: holds no ranges", advice, contents.kernels)
    if gpu and contents.kernels == 0:
        raise NothingRecordedError(
            f"{trace}: holds no kernels: the program did not use the GPU in the recorded "
            "iterations, or another profiler held it (CUPTI serves one at a time)"
        )
    return contents


def count(trace: Path) -> Contents:
    """Count the events of a trace by their categories, in bounded memory."""
    counts: Counter[str] = Counter()
    rest = b""
    with Unpacked(trace) as content:
        while block := content.read(_BLOCK):
            text, end = rest + block, 0
            for match in _CATEGORY.finditer(text):
                counts[match[1].decode()] += 1
                end = match.end()
            rest = text[max(end, len(text) - _LONGEST) :]
    calls = sum(counts[name] for name in ("cuda_runtime", "cuda_driver"))
    return Contents(counts["user_annotation"], counts["kernel"], calls)


def _check(profile: Path, gpu: bool, _printed: Sequence[str]) -> Contents:
    return check(profile, gpu=gpu)


PROFILER = Profiler(
    "torch", inspection.torch_profiler, timelines=Timelines(_plan, _profile, _check)
)
