"""Read Nsight Compute: CSV."""

from tbd_trace.sources.tool import Tool

TOOL = Tool(
    name="ncu",
    formats={"ncu-csv": "tbd_trace.sources.ncu.reader:NSIGHT_COMPUTE_CSV"},
    accepts="Nsight Compute CSV",
    counters_command="`ncu --set full --csv --page raw`",
)
