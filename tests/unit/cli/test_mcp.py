"""The tools for assistants, and the server with the client of the SDK."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import tbd_trace
from corpus import ROOT
from tbd_trace.cli.main import app
from tbd_trace.cli.mcp import Tools
from tbd_trace.errors import SqlError, UsageError

SAMPLES = ROOT / "data" / "samples"
CNN = "synthetic_cnn"
pytestmark = pytest.mark.usefixtures("sample_cache")


@pytest.fixture
def tools(elsewhere: Path) -> Tools:
    return Tools(SAMPLES.resolve())


@pytest.mark.slow
def test_answers_are_those_of_python(tools: Tools) -> None:
    traces = tbd_trace.open(SAMPLES / CNN)
    assert [row["kernels"] for row in tools.open([CNN])["rows"]] == [25, 301]
    assert tools.why([CNN]) == traces.why().to_dict()
    found = tools.query("kernel_summary", [CNN], {"by": "configuration"}, limit=2)
    frame = traces.query("kernel_summary", by="configuration")
    assert [row["total_ns"] for row in found["rows"]] == frame["total_ns"][:2].to_list()
    assert found["more_rows"] == frame.height - 2
    assert found["units"]["total_ns"] == "ns"
    assert "kernel_summary" in tools.queries()
    counted = tools.sql("SELECT count(*) AS n FROM kernel", [CNN])
    assert counted == {"rows": [{"n": 326}], "more_rows": 0}
    derived = tools.sql("SELECT count(*) AS n FROM iteration", [CNN])
    assert derived["rows"] == [{"n": 12}]


@pytest.mark.parametrize("path", ["../../etc", "/etc/hosts", "https://example.com/a.zip", "gone"])
def test_only_traces_below_the_root_are_read(tools: Tools, path: str) -> None:
    with pytest.raises(UsageError, match=r"outside|no such file"):
        tools.open([path])
    with pytest.raises(UsageError):
        tools.open([])


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM read_text('/etc/hosts')",
        "SELECT * FROM read_csv('/etc/hosts')",
        "COPY (SELECT 1) TO 'x.csv'",
        "CREATE TABLE x (n INTEGER)",
        "SET lock_configuration = false; SELECT 1",
        "ATTACH 'x.duckdb'",
    ],
)
def test_sql_reads_the_tables_alone(tools: Tools, statement: str, elsewhere: Path) -> None:
    with pytest.raises((SqlError, UsageError)):
        tools.sql(statement, [CNN])
    assert not list(elsewhere.glob("x.*"))


def test_a_query_is_no_file(tools: Tools, elsewhere: Path) -> None:
    (elsewhere / "own.sql").write_text("SELECT 1 AS n")
    with pytest.raises(UsageError, match=r"own\.sql"):
        tools.query(str(elsewhere / "own.sql"), [CNN])


@pytest.mark.slow
def test_a_root_that_is_missing(elsewhere: Path) -> None:
    pytest.importorskip("mcp")
    done = CliRunner().invoke(app, ["mcp", "--root", "gone"])
    assert done.exit_code == 2
    assert "gone: there is no such directory" in done.stderr


@pytest.mark.slow
def test_the_server_answers_the_client_of_the_sdk(elsewhere: Path) -> None:
    pytest.importorskip("mcp.server.mcpserver")
    from mcp import Client, StdioServerParameters

    shutil.copytree(SAMPLES / CNN, elsewhere / CNN)
    program = StdioServerParameters(
        command=sys.executable, args=["-m", "tbd_trace", "mcp"], env=dict(os.environ)
    )

    async def asked() -> tuple[set[str], dict[str, Any], Any]:
        async with Client(program) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            counted = await client.call_tool(
                "sql", {"statement": "SELECT count(*) AS n FROM kernel", "paths": [CNN]}
            )
            refused = await client.call_tool("open", {"paths": ["../up"]})
            return names, json.loads(counted.content[0].text), refused

    names, counted, refused = asyncio.run(asyncio.wait_for(asked(), 60))
    assert names == {"open", "why", "queries", "query", "sql"}
    assert counted["rows"] == [{"n": 326}]
    assert refused.is_error
    assert "is outside" in refused.content[0].text
