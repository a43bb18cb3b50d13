"""Read memory profiles of MXNet: the CSV of GPU allocations, and counters of its profiler."""

from tbd_trace.sources.tool import Tool

_READER = "tbd_trace.sources.mxnet_memory.reader"
TOOL = Tool(
    name="mxnet",
    formats={
        "mxnet-gpu-memory": f"{_READER}:GPU_MEMORY_CSV",
        "mxnet-memory-counter": f"{_READER}:MEMORY_COUNTER",
    },
    accepts="MXNet memory profile (CSV or JSON)",
)
