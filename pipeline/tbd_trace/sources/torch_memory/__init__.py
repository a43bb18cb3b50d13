"""Read memory snapshots of PyTorch; traces of its profiler are read by ``kineto``."""

from tbd_trace.sources.tool import Tool

TOOL = Tool(
    name="torch",
    formats={
        "torch-json": "tbd_trace.sources.kineto.reader:TORCH_TRACE",
        "torch-memory-snapshot": "tbd_trace.sources.torch_memory.reader:TORCH_SNAPSHOT",
    },
    accepts="a PyTorch trace (.json, .json.gz) or memory snapshot (.pickle, .pickle.gz)",
    profile_command="`torch.profiler.profile(activities=supported_activities())`",
)
