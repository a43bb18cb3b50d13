"""What to collect when a trace lacks what a question needs."""

from __future__ import annotations

from collections.abc import Sequence

_NSYS = "`nsys profile -t cuda,nvtx,cudnn,cublas`"
_COUNTERS = (
    "needs to know the kernels' FLOP or the use of their pipes: collect hardware counters with "
    "`ncu --csv --page raw` (before compute capability 7.5 `nvprof --metrics`), "
    "or a capture directory whose layers.json tells the FLOP of the layers"
)
_ADVICE = {
    "kernel": f"needs single kernels; collect a timeline with {_NSYS}",
    "kernel_metric": (
        "needs hardware counters; collect them with `ncu --csv --page raw` "
        "or, before compute capability 7.5, `nvprof --metrics`"
    ),
    "layer_clock": (
        "needs kernels to time or layers: collect a timeline with "
        f"{_NSYS}, or, without a GPU, mark the layers with NVTX ranges layer:NAME "
        "(docs/capture_directory.md) and collect with `nsys profile -t nvtx`"
    ),
    "nvtx_range": f"needs NVTX ranges; annotate the program and collect with {_NSYS}",
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


def how_to_collect(relations: Sequence[str], tool: str, kind: str) -> str:
    """Return what a query lacks and how to get it, as the end of a sentence.

    Args:
        relations: the table or derived relation without rows, or several of which one is enough.
        tool: the profiler that made the trace, empty when several are meant.
        kind: timeline, metrics or summary, empty when several are meant.
    """
    if kind in ("metrics", "summary") and _TOLD_BY_TIMES.issuperset(relations):
        advice = f"needs a timeline; collect one with {_NSYS}"
    else:
        known = (_ADVICE.get(name, f"needs {name}, which the trace lacks") for name in relations)
        advice = ", or ".join(known)
    if tool and kind in ("metrics", "summary"):
        return f"{advice} (this is a {kind} file of {tool})"
    return advice
