"""Read dumps of PyTorch's Flight Recorder: the last collectives of one rank of a job."""

from tbd_trace.sources.tool import Tool

TOOL = Tool(
    name="flight-recorder",
    formats={
        "flight-recorder-dump": "tbd_trace.sources.flight_recorder.reader:FLIGHT_RECORDER_DUMP"
    },
    accepts="a Flight Recorder dump of PyTorch (pickle or JSON)",
)
