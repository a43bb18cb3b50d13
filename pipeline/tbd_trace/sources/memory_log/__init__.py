"""Read memory logs of tbd-trace: memory.jsonl."""

from tbd_trace.sources.tool import Tool

TOOL = Tool(
    name="tbd-trace",
    formats={"memory-log": "tbd_trace.sources.memory_log.reader:MEMORY_LOG"},
    accepts="memory log (memory.jsonl)",
)
