"""Read the output of nccl-tests and rccl-tests: how fast collectives use the links."""

from tbd_trace.sources.tool import Tool

TOOL = Tool(
    name="nccl-tests",
    formats={"nccl-tests-log": "tbd_trace.sources.nccl_tests.reader:NCCL_TESTS_LOG"},
    accepts="nccl-tests log",
)
