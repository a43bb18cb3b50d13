"""What a query needs: relations, and relations of which one is enough."""

from __future__ import annotations

from pathlib import Path

import pytest

from fast import nightly
from made_nsys import KERNEL, NVTX, Tables, kernel, nvtx, strings, write
from tbd_trace.errors import CannotAnswerError, UsageError
from tbd_trace.query import Catalogue, execute
from tbd_trace.query.advice import how_to_collect
from tbd_trace.query.catalogue import read_query
from tbd_trace.query.header import alternatives
from tbd_trace.store import Database

PUSH_POP = 59
LAYERS = ("dominant_layer", "layer_time")
ITERATION = nvtx(PUSH_POP, text="iteration 0")
LAYER = nvtx(PUSH_POP, text="layer:conv", start=950, end=1050)


def holding(folder: Path, **files: Tables) -> Database:
    """Return a database of nsys exports."""
    database = Database(folder / "x.duckdb")
    paths = [
        write(folder / f"{name}.sqlite", {"StringIds": strings()} | tables)
        for name, tables in files.items()
    ]
    database.ingest(paths)
    return database


def own(folder: Path, needs: str) -> Path:
    path = folder / "own.sql"
    path.write_text(f"/*\nneeds = {needs}\n*/ SELECT 1 AS n", encoding="utf-8")
    return path


def refusal(database: Database, name: str | Path, **parameters: str) -> str:
    query = read_query(name) if isinstance(name, Path) else Catalogue().get(name)
    with pytest.raises(CannotAnswerError) as raised:
        execute(database, query, parameters=parameters)
    message = str(raised.value)
    assert "\n" not in message
    return message


def test_alternatives_in_a_header(tmp_path: Path) -> None:
    query = read_query(own(tmp_path, '["trace", ["kernel", "annotation"]]'))
    assert [alternatives(need) for need in query.needs] == [["trace"], ["kernel", "annotation"]]
    assert query.relations == ["trace", "kernel", "annotation"]


@pytest.mark.parametrize("needs", ["[[]]", '[""]', '["kernel", [1]]', '[[["kernel"]]]', '"kernel"'])
def test_what_is_no_need(tmp_path: Path, needs: str) -> None:
    with pytest.raises(UsageError, match="needs is not a list of names"):
        read_query(own(tmp_path, needs))


@pytest.mark.slow
def test_one_of_several_relations_is_enough(tmp_path: Path) -> None:
    database = holding(tmp_path, gpu={KERNEL: [kernel()]}, cpu={NVTX: [LAYER]})
    both = execute(database, read_query(own(tmp_path, '[["kernel", "annotation"]]')))
    assert both.notes == []
    kernels = execute(database, read_query(own(tmp_path, '["kernel"]')))
    assert [note.split(":")[0] for note in kernels.notes] == ["cpu.sqlite"]


@pytest.mark.slow
def test_none_of_several_relations_is_too_little(tmp_path: Path) -> None:
    database = holding(tmp_path, gpu={KERNEL: [kernel()]})
    line = refusal(database, own(tmp_path, '[["memcpy", "annotation"]]'))
    assert line.startswith("gpu.sqlite: own needs GPU memory copies")
    assert ", or needs operators or ranges, and the trace has none; annotate the program" in line
    derived = refusal(database, own(tmp_path, '[["iteration", "layer_host_time"]]'))
    assert derived.startswith("own needs iterations")
    found = execute(database, read_query(own(tmp_path, '[["iteration", "gpu_op"]]')))
    assert found.frame.rows() == [(1,)]


@pytest.mark.parametrize("relation", ["kernel", "gpu_op", "device_timeline"])
@pytest.mark.parametrize(
    ("holds", "said"),
    [
        ((), "with the GPU traced"),
        (("api_call", "nvtx_range"), "profile the process and the part of the run that uses a GPU"),
        (("memcpy",), "only copies or fills were recorded"),
        (("annotation",), "without a GPU, `tbd-trace why` answers"),
        (("graph_launch", "memcpy"), "and graphs were traced as a whole; record with"),
    ],
)
def test_a_timeline_is_not_advised_to_collect_a_timeline(
    relation: str, holds: tuple[str, ...], said: str
) -> None:
    for tool in ("nsys", "nvprof"):
        advice = how_to_collect([relation], tool, "timeline", holds)
        assert said in advice
        assert "collect a timeline" not in advice
    assert "collect a timeline" in how_to_collect([relation], "ncu", "metrics")


@pytest.mark.parametrize(
    "relation",
    ["kernel_work", "utilization", "kernel_counter", "kernel_utilization", "kernel_traffic"],
)
def test_counters_that_do_not_tell_are_not_collected_again(relation: str) -> None:
    assert "collect" in how_to_collect([relation], "nsys", "timeline")
    for tool, more in (("ncu", "--set full"), ("nvprof", "--analysis-metrics")):
        advice = how_to_collect([relation], tool, "metrics")
        assert "which the counters of this file do not include" in advice
        assert more in advice


def test_calls_that_nvprof_did_not_print() -> None:
    assert "--print-api-trace" in how_to_collect(["api_call"], "nvprof", "timeline")
    assert "--profile-api-trace all" in how_to_collect(["api_call"], "nvprof", "metrics")


def test_what_to_collect_where_none_of_several_is_there() -> None:
    one, both = (how_to_collect(names, "", "") for names in (["iteration"], ["iteration", "x"]))
    assert both == f"{one}, or needs x, which the trace lacks"
    counters = how_to_collect(["iteration", "memcpy"], "ncu", "metrics")
    assert counters.startswith("needs a timeline; collect a timeline with")
    assert counters.count("(this is a metrics file of ncu)") == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYERS)
def test_layers_need_kernels_or_ranges(tmp_path: Path, name: str) -> None:
    database = holding(tmp_path, idle={"OSRT_API": []})
    line = refusal(database, name)
    assert f"{name} needs single kernels, and the trace has none; profile the process" in line
    assert "or needs operators or ranges" in line


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYERS)
def test_ranges_that_name_no_layer_tell_nothing_of_layers(tmp_path: Path, name: str) -> None:
    line = refusal(holding(tmp_path, cpu={NVTX: [ITERATION]}), name)
    assert line.startswith(f"{name} needs kernels to time or layers: collect")
    assert "layer:NAME" in line
    assert "`nsys profile -t nvtx`" in line


@pytest.mark.slow
@pytest.mark.parametrize("name", [LAYERS[0], pytest.param(LAYERS[1], marks=nightly)])
def test_a_clock_that_a_trace_lacks(tmp_path: Path, name: str) -> None:
    (tmp_path / "cpu").mkdir()
    cpu = holding(tmp_path / "cpu", cpu={NVTX: [ITERATION, LAYER]})
    assert "needs kernels to time or layers" in refusal(cpu, name, clock="gpu")
    assert execute(cpu, Catalogue().get(name)).frame["clock"].to_list() == ["host", "host"]
    gpu = holding(tmp_path, gpu={KERNEL: [kernel()]})
    assert "needs kernels to time or layers" in refusal(gpu, name, clock="host")
    assert execute(gpu, Catalogue().get(name)).frame["clock"].to_list() == ["gpu"]
