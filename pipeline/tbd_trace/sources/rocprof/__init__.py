"""Read rocprofv3 of ROCm: its ``rocpd`` databases and its JSON."""

from tbd_trace.sources.tool import Tool

TOOL = Tool(
    name="rocprof",
    formats={
        "rocpd-sqlite": "tbd_trace.sources.rocprof.rocpd:ROCPD",
        "rocprof-json": "tbd_trace.sources.rocprof.json_file:ROCPROF_JSON",
    },
    accepts="a rocpd database or JSON of rocprofv3",
    profile_command="`rocprofv3 --sys-trace`",
)
