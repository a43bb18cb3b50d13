"""What to collect when a trace lacks what a question needs."""

from __future__ import annotations

from collections.abc import Collection, Sequence

_NSYS = "`nsys profile -t cuda,nvtx,cudnn,cublas`"
_COUNTERS = (
    "needs to know the kernels' FLOP or the use of their pipes: collect hardware counters with "
    "`ncu --csv --page raw` (before compute capability 7.5 `nvprof --metrics`), "
    "or a capture directory whose layers.json tells the FLOP of the layers"
)
_KERNEL_COUNTERS = (
    "needs hardware counters of the kernels; collect them with `ncu --csv --page raw` "
    "or, before compute capability 7.5, `nvprof --metrics`"
)
_ADVICE = {
    "kernel": f"needs single kernels; collect a timeline with {_NSYS}",
    "kernel_metric": _KERNEL_COUNTERS,
    "kernel_counter": _KERNEL_COUNTERS,
    "kernel_utilization": _KERNEL_COUNTERS,
    "layer_clock": (
        "needs kernels to time or layers: collect a timeline with "
        f"{_NSYS}, or, without a GPU, mark the layers with NVTX ranges layer:NAME "
        "(docs/reference/capture_directory.md) and collect with `nsys profile -t nvtx`"
    ),
    "nvtx_range": (
        f"needs NVTX ranges, and the trace has none; annotate the program and collect with {_NSYS}"
    ),
    "api_call": f"needs the CUDA API calls; collect with {_NSYS}",
    "memcpy": "needs GPU memory copies, and the trace has none",
    "memset": "needs GPU memory fills, and the trace has none",
    "gpu_sample": (
        "needs periodic GPU metrics; collect with `nsys profile --gpu-metrics-device=all`"
    ),
    "memory_event": (
        "needs device allocations; collect with `nsys profile --cuda-memory-usage=true`"
    ),
    "layer_definition": "needs layers.json beside the trace, in a capture directory",
    "device": "needs the GPU's description, which this export lacks; export it with a newer nsys",
    "gpu_op": f"needs GPU operations; collect a timeline with {_NSYS}",
    "iteration": (
        "needs iterations: no NVTX range or mark matches iteration_pattern and the kernels show no "
        "period; mark each iteration with NVTX, or use --set iteration_pattern=REGEX"
    ),
    "kernel_work": _COUNTERS,
    "utilization": _COUNTERS,
    "kernel_traffic": (
        "needs the kernels' traffic of device memory: collect dram__bytes_read.sum and "
        "dram__bytes_write.sum with `ncu --csv --page raw`, or, before compute capability 7.5, "
        "dram_read_bytes and dram_write_bytes with `nvprof --metrics`"
    ),
    "device_timeline": f"needs GPU operations; collect a timeline with {_NSYS}",
    "layer": (
        "needs layers: no NVTX range names one; annotate the layers with NVTX "
        "(PyTorch: torch.autograd.profiler.emit_nvtx)"
    ),
}
_TOLD_BY_TIMES = {"iteration", "layer", "memcpy", "memset"}  # counters of kernels know none of it
# What a timeline of the same profiler can lack: advice to collect one would be no help.
_OF_THE_GPU = {"kernel": "single kernels", "gpu_op": "GPU operations"}
_OF_THE_GPU["device_timeline"] = _OF_THE_GPU["gpu_op"]
_PROFILE = {"nsys": _NSYS, "nvprof": "`nvprof -o FILE`"}
_CALLS_OF_NVPROF = (
    "needs the CUDA API calls, which this file lacks; ingest nvprof's database, or print them, "
    "too: `nvprof --csv --print-gpu-trace --print-api-trace`"
)
# Counters that are there, but not those that tell.
_TOLD_BY_COUNTERS = {
    "kernel_work": "the kernels' FLOP or the use of their pipes",
    "utilization": "the kernels' FLOP or the use of their pipes",
    "kernel_counter": "utilization of the kernels",
    "kernel_utilization": "utilization of the kernels",
    "kernel_traffic": "the kernels' traffic of device memory",
}
_MORE_COUNTERS = {
    "ncu": "`ncu --set full --csv --page raw`",
    "nvprof": "`nvprof --metrics all` or `nvprof --analysis-metrics`",
}


def how_to_collect(
    relations: Sequence[str], tool: str, kind: str, holds: Collection[str] = ()
) -> str:
    """Return what a query lacks and how to get it, as the end of a sentence.

    Args:
        relations: the table or derived relation without rows, or several of which one is enough.
        tool: the profiler that made the trace, empty when several are meant.
        kind: timeline, metrics or summary, empty when several are meant.
        holds: the canonical tables that the trace has, as far as they are known.
    """
    if kind in ("metrics", "summary") and _TOLD_BY_TIMES.issuperset(relations):
        advice = f"needs a timeline; collect one with {_NSYS}"
    else:
        known = dict.fromkeys(_advice(name, tool, kind, holds) for name in relations)
        advice = ", or ".join(known)
    if tool and kind in ("metrics", "summary"):
        return f"{advice} (this is a {kind} file of {tool})"
    return advice


def _advice(name: str, tool: str, kind: str, holds: Collection[str]) -> str:
    """Return the advice for one relation: nothing that was done to make the trace."""
    if kind == "timeline" and name in _OF_THE_GPU and tool in _PROFILE:
        return _without_gpu_work(_OF_THE_GPU[name], tool, holds)
    if kind == "timeline" and tool == "nvprof" and name == "api_call":
        return _CALLS_OF_NVPROF
    if kind == "metrics" and name in _TOLD_BY_COUNTERS and tool in _MORE_COUNTERS:
        return (
            f"needs {_TOLD_BY_COUNTERS[name]}, which the counters of this file do not tell; "
            f"collect more of them with {_MORE_COUNTERS[tool]}"
        )
    return _ADVICE.get(name, f"needs {name}, which the trace lacks")


def _without_gpu_work(what: str, tool: str, holds: Collection[str]) -> str:
    """Return why a timeline may have no kernels, and what to change about the next one."""
    if "graph_launch" in holds:
        return (
            f"needs {what}, and CUDA graphs were traced as a whole; profile with "
            "`nsys profile --cuda-graph-trace=node`"
        )
    if {"memcpy", "memset"}.intersection(holds):
        return (
            f"needs {what}, and only copies or fills were recorded; profile the part that computes"
        )
    return (
        f"needs {what}, and the trace has none; profile the process and the part of the run that "
        f"uses a GPU, with CUDA traced ({_PROFILE[tool]})"
    )
