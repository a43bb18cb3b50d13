"""Read memory snapshots of PyTorch."""

from tbd_trace.sources.tool import Tool

TOOL = Tool(
    name="torch",
    formats={"torch-memory-snapshot": "tbd_trace.sources.torch_memory.reader:TORCH_SNAPSHOT"},
    accepts="PyTorch memory snapshot (.pickle, .pickle.gz)",
)
