"""Read nvprof: SQLite databases and CSV."""

from tbd_trace.sources.tool import Tool

TOOL = Tool(
    name="nvprof",
    formats={
        "nvprof-sqlite": "tbd_trace.sources.nvprof.reader:NVPROF_SQLITE",
        "nvprof-csv": "tbd_trace.sources.nvprof.csv_reader:NVPROF_CSV",
    },
    accepts="an nvprof/NVVP database, nvprof CSV",
    profile_command="`nvprof -o FILE`",
    counters_command="`nvprof --metrics all` or `nvprof --analysis-metrics`",
)
