"""Read Nsight Systems: SQLite exports, and reports through the installed nsys."""

from tbd_trace.sources.tool import Tool

TOOL = Tool(
    name="nsys",
    formats={
        "nsys-sqlite": "tbd_trace.sources.nsys.detection:NSYS_SQLITE",
        "nsys-report": "tbd_trace.sources.nsys.detection:NSYS_REPORT",
    },
    accepts="a Nsight Systems report or SQLite export",
    profile_command="`nsys profile -t cuda,nvtx,cudnn,cublas`",
)
