"""Advice on recording more is given in the words of the profiler of the trace."""

from __future__ import annotations

import csv
import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from made_kineto import document, event, kernel, launch, operator, write
from made_trace import MadeTrace
from tbd_trace import resources
from tbd_trace.analysis.checks.rules import rule_of
from tbd_trace.cli.main import app
from tbd_trace.model.canonical_tables import canonical_tables
from tbd_trace.query import Catalogue, prepare
from tbd_trace.query.advice import how_to_collect
from tbd_trace.query.catalogue import derived_names
from tbd_trace.query.recording import in_words_of, in_words_of_each
from tbd_trace.sources.recording_actions import action
from tbd_trace.why.processes import INPUTS, diagnoses

OF_NVIDIA = re.compile(r"\bnsys|\bnvprof|\bncu\b|NVTX|Nsight|NVIDIA|nvidia-smi", re.IGNORECASE)
OF_NSYS = re.compile(r"\bnsys|Nsight Systems", re.IGNORECASE)
CUDA = re.compile(r"\bCUDA\b|cuDNN|nccl-tests")
TOOLS = ("nsys", "nvprof", "ncu", "torch", "tensorflow", "rocprof", "other")
OTHERS = ("torch", "tensorflow", "rocprof", "other", "xla", "mxnet", "tbd-trace", "x")


def rows() -> list[dict[str, str]]:
    with (resources.data() / "recording_actions.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def advice_texts(tool: str) -> list[str]:
    """Return all texts about missing data of traces of a profiler."""
    relations = [*canonical_tables(), *derived_names()]
    texts = [
        how_to_collect([name], tool, kind, holds)
        for name in relations
        for kind in ("timeline", "metrics", "memory", "")
        for holds in ((), ("annotation",), ("graph_launch",), ("memcpy",))
    ]
    for query in Catalogue().checks():
        texts += [
            in_words_of(text, tool) for text in (rule_of(query).advice, rule_of(query).collect)
        ]
    return [*texts, *(action(tool, row["what"]) for row in rows())]


def test_each_profiler_has_each_action() -> None:
    by_tool: dict[str, list[str]] = {}
    for row in rows():
        by_tool.setdefault(row["tool"], []).append(row["what"])
    assert tuple(by_tool) == TOOLS
    assert len({tuple(found) for found in by_tool.values()}) == 1
    assert len(by_tool["nsys"]) == len(set(by_tool["nsys"]))


@pytest.mark.parametrize("tool", OTHERS)
def test_texts_for_other_profilers_name_none_of_nvidia(tool: str) -> None:
    texts = advice_texts(tool)
    assert len(texts) > 100
    assert [text for text in texts if OF_NVIDIA.search(text)] == []
    assert [text for text in texts if CUDA.search(text)] == []
    assert [text for text in texts if re.search(r"\{[a-z_]+\}", text)] == []


def test_texts_for_nvprof_name_nvprof() -> None:
    assert [text for text in advice_texts("nvprof") if OF_NSYS.search(text)] == []
    assert any("nvprof" in text for text in advice_texts("nvprof"))
    assert any("nsys profile" in text for text in advice_texts("nsys"))


def test_a_profiler_that_the_table_lacks_has_actions_without_a_name() -> None:
    assert action("x", "launches") == action("other", "launches")
    assert action("", "launches") == action("nsys", "launches")  # in the reference


def test_names_in_braces_become_actions() -> None:
    text = "needs kernels; {timeline}"
    assert in_words_of(text, "nvprof") == "needs kernels; collect a timeline with `nvprof -o FILE`"
    with pytest.raises(KeyError):
        in_words_of("{no_such_action}", "torch")


def test_several_profilers_hear_each_their_own() -> None:
    say = partial(in_words_of, "needs steps; {clocks}")
    assert in_words_of_each(["torch", "nsys", "ncu"], say) == (
        "needs steps; record with a newer PyTorch; for nsys and ncu: record with a newer profiler"
    )
    assert in_words_of_each(["nsys", "ncu"], say) == "needs steps; record with a newer profiler"
    assert in_words_of_each([], say) == say("nsys")


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["nsys", "torch"])
def test_what_is_not_known_names_the_tool_of_the_trace(tool: str) -> None:
    made = MadeTrace()
    made.add_trace(tool=tool)
    for at in range(0, 3_000_000, 1_000_000):  # without launching calls and steps
        made.add_kernel(at, at + 500_000)
    with made.connect() as database:
        prepare(database.connection, INPUTS)
        (one,) = diagnoses(database.connection)
    said = " ".join(one.not_known)
    assert action(tool, "launches") in said
    assert action(tool, "steps") in said
    assert bool(OF_NVIDIA.search(said)) == (tool == "nsys")


def output(*words: object) -> str:
    return CliRunner().invoke(app, [str(word) for word in words]).output


@pytest.mark.slow
def test_a_trace_of_torch_hears_of_torch_only(tmp_path: Path) -> None:
    amd = {"id": 0, "name": "AMD Instinct MI300X", "warpSize": 64, "numSms": 304}
    events = []
    for step in range(4):
        at = 1000 * step
        events += [operator("aten::mm", at + 1, 20), launch(at + 5, step + 1, "hipLaunchKernel")]
        events.append(kernel(at + 30, 500, step + 1, "Cijk_Ailk_Bljk_SB"))
    path = write(tmp_path / "amd.json", document(events, deviceProperties=[amd]))
    said = [output("why", path, "--all"), output("check", path, "--verbose")]
    for query in ("memory_peak", "layer_host_time", "comm_overlap", "sampled_util", "link_summary"):
        said.append(output("query", query, path))
    text = "\n".join(said)
    assert "record_function" in text
    assert "profile_memory=True" in text
    assert [line for line in text.splitlines() if OF_NVIDIA.search(line)] == []
    assert [line for line in text.splitlines() if CUDA.search(line)] == []


def ascend(at: float, dur: float, task: str) -> dict[str, Any]:
    made = event("", "aclnnMatmul_MatMulV3", f"{at:.3f}", dur, pid=30, tid=5)
    del made["cat"]
    return made | {"args": {"Task Type": task, "Stream Id": 5}}


@pytest.mark.slow
def test_tasks_of_an_ascend_npu_are_kernels_of_a_named_device(tmp_path: Path) -> None:
    # torch_npu writes a bare list; the times of the device are those of its cores.
    name = {"ph": "M", "name": "process_name", "pid": 30, "tid": 0}
    events = [operator("aten::mm", 0, 20), name | {"args": {"name": "Ascend Hardware"}}]
    events += [ascend(100, 40, "AI_CORE"), ascend(150, 2, "AI_VECTOR_CORE")]
    events += [ascend(160, 300, "EVENT_WAIT"), ascend(500, 8, "MEMCPY_ASYNC")]
    path = write(tmp_path / "trace_view.json", events)
    found = json.loads(output("query", "trace_info", path, "--format", "json"))
    (row,) = found["rows"] if isinstance(found, dict) else found
    assert (row["kernels"], row["kernel_ns"], row["memcpys"]) == (2, 42_000, 1)
    assert "Ascend Hardware" in str(row["devices"])


@pytest.mark.slow
def test_a_device_that_is_not_read_is_named(tmp_path: Path) -> None:
    events = [operator("aten::mm", 0, 20), event("mtia_ccp_events", "pe_exe", 5, 9, pid=17)]
    header = {"deviceProperties": [{"id": 17, "name": "ARTEMIS"}]}
    path = write(tmp_path / "mtia.json", document(events, **header))
    said = " ".join(output("query", "kernel_summary", path).split())
    assert "needs single kernels, and work of ARTEMIS is not read: mtia_ccp_events 1" in said
    assert "uses a GPU" not in said
