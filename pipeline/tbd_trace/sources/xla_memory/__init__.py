"""Read the static memory plans of XLA."""

from tbd_trace.sources.tool import Tool

TOOL = Tool(
    name="xla",
    formats={"xla-buffer-assignment": "tbd_trace.sources.xla_memory.reader:BUFFER_ASSIGNMENT"},
    accepts="XLA buffer assignment (*-buffer-assignment.txt)",
)
