"""Operators and modules of real traces of torch.profiler own the kernels that they launch.

The reference tables in ``reference/kineto`` were made by searching the nesting of all events.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from corpus import corpus_folder, reference_rows
from parameters import Parameters
from real_traces import KINETO, Traces

KERNELS = "kernel_scope AS s JOIN kernel AS k USING (trace_id, kernel_id)"
LINEAR = "facebookresearch_param__et_replay__tests__inputs__resnet_kineto.json.gz"


@cache
def oracle(table: str) -> dict[str, list[dict[str, str]]]:
    rows: defaultdict[str, list[dict[str, str]]] = defaultdict(list)
    for row in reference_rows(f"kineto/{table}.csv"):
        rows[row["file"]].append(row)
    return rows


def files(table: str) -> pytest.MarkDecorator:
    """Run a test with the traces that have rows in a reference table, file by file."""

    def found() -> list[Any]:
        corpus_folder()  # skips where it is missing
        return [file for file in KINETO if file.values[0].name in oracle(table)]

    return pytest.mark.parametrize("path", Parameters(found), scope="module")


def name_of(path: Path) -> str:
    return f"kineto/{path.name}"


@pytest.mark.slow
@files("modules")
def test_modules_own_kernels_forward_and_backward(traces: Traces, path: Path) -> None:
    found: Counter[tuple[str, str]] = Counter()
    lasting: Counter[tuple[str, str]] = Counter()
    for layer, is_module, evidence, kernels, total in traces.sql(
        name_of(path),
        f"""
        SELECT s.layer, m.text IS NOT NULL, s.layer_evidence, count(*),
            sum(k.end_ns - k.start_ns)::BIGINT
        FROM {KERNELS}
        LEFT JOIN (SELECT DISTINCT text FROM annotation WHERE source = 'module') AS m
            ON m.text = s.layer
        GROUP BY ALL
        """,
    ).rows():
        how = "backward by sequence" if evidence == "sequence" else "forward"
        key = (layer.split("/")[-1], how) if is_module else ("", "")
        found[key] += kernels
        lasting[key] += total
    for row in oracle("modules")[path.name]:
        key = (row["module"], row["how"])
        assert (found[key], lasting[key]) == (int(row["kernels"]), int(row["total_ns"])), key


@pytest.mark.slow
@files("links")
def test_launches_and_operators_of_kernels(traces: Traces, path: Path) -> None:
    (row,) = oracle("links")[path.name]
    kernels, launched = traces.sql(
        name_of(path), f"SELECT count(*), count(s.api_call_id) FROM {KERNELS}"
    ).row(0)
    assert (kernels, launched) == (int(row["kernels"]), int(row["with_launch"]))


@pytest.mark.slow
@files("top_ops")
def test_kernel_time_by_innermost_operator(traces: Traces, path: Path) -> None:
    """The reference counts kernels only; copies and fills are in ``op_summary``, too."""
    found: dict[str, int] = Counter()
    for operator, total in traces.sql(
        name_of(path),
        f"""
        SELECT regexp_replace(a.text, '(?s), (?:seq|op_id|sizes) = .*', ''),
            sum(k.end_ns - k.start_ns)::BIGINT
        FROM {KERNELS}
        LEFT JOIN _host_tree AS t ON t.trace_id = s.trace_id AND t.api_call_id = s.api_call_id
        LEFT JOIN annotation AS a
            ON a.trace_id = t.trace_id AND a.annotation_id = t.parent_id AND a.source = 'operator'
        GROUP BY ALL
        """,
    ).rows():
        found[operator or ""] += total
    # With whole microseconds, a launch can begin at the very end of another operator.
    doubtful = traces.sql(
        name_of(path),
        f"""
        SELECT coalesce(sum(k.end_ns - k.start_ns), 0)::BIGINT
        FROM {KERNELS}
        JOIN api_call AS c ON c.trace_id = s.trace_id AND c.api_call_id = s.api_call_id
        SEMI JOIN annotation AS a
            ON a.trace_id = c.trace_id AND a.thread_id = c.thread_id AND a.end_ns = c.start_ns
            AND a.source = 'operator'
        """,
    ).item()
    ranges = traces.sql(name_of(path), "SELECT count(*) FROM annotation WHERE source = 'python'")
    nested = {"", "record_param_comms", "c10d::_allgather_base_"} if ranges.item() else set()
    for row in oracle("top_ops")[path.name]:
        # A range of record_function can lie between an operator and its launches.
        if row["method"] == "nesting" and row["op"] not in nested:
            assert abs(found[row["op"]] - int(row["gpu_ns"])) <= doubtful, row["op"]


def test_external_ids_do_not_decide(traces: Traces) -> None:
    """In older files the number belongs to another operator."""
    rows = oracle("top_ops")[LINEAR]
    by_id = {row["op"]: row["gpu_ns"] for row in rows if row["method"] == "external id"}
    nesting = {row["op"]: row["gpu_ns"] for row in rows if row["method"] == "nesting"}
    assert by_id != nesting
