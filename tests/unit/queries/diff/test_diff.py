"""diff: comparability, kernels, layers and utilization of two runs, worked out by hand."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fast import examples, one_in
from made_pair import add_iterations, answers
from made_trace import MadeDatabase, MadeTrace, Row
from tbd_trace.analysis.diff.comparison import QUESTIONS, question
from tbd_trace.model.canonical_tables import canonical_tables
from tbd_trace.query.catalogue import derive_relations
from tbd_trace.query.header import alternatives

SAID: dict[str, Any] = {
    "model": "resnet50",
    "framework": "pytorch",
    "framework_version": "2.13.0",
    "dataset": "synthetic",
    "precision": "fp32",
    "scale": "full",
    "world_size": 1,
}


def described(
    made: MadeTrace, name: str, batch_size: int = 4, tool: str = "nsys", **said: Any
) -> None:
    content = {key: value for key, value in (SAID | said).items() if value is not None}
    made.add_trace(name, batch_size=batch_size, tool=tool, capture=json.dumps(content))
    add_iterations(made, name, [1000, 1010, 990, 1000, 1010])


def by(rows: list[Row], key: str) -> dict[str, Row]:
    return {row[key]: row for row in rows}


@pytest.mark.slow
@pytest.mark.parametrize("name", QUESTIONS)
def test_header_says_what_the_query_reads_and_returns(name: str) -> None:
    query = question(name)
    assert query.text.startswith("/*\n")
    assert query.title and query.source and query.grain
    assert query.question.endswith("?")
    known = canonical_tables().keys() | {relation.name for relation in derive_relations()}
    assert set(query.relations) <= known | {"diff_side"}
    needed = {each for need in query.needs for each in alternatives(need)}
    assert "diff_side" in needed
    with MadeDatabase({}) as database:
        database.derive(query.relations)
        database.connection.execute("CREATE TABLE diff_side (trace_id VARCHAR, side VARCHAR)")
        columns = database.connection.execute(f"DESCRIBE {query.sql}").fetchall()
        assert [column[0] for column in columns] == list(query.columns)
        assert {column[1] for column in columns} <= {"VARCHAR", "BIGINT", "DOUBLE", "BOOLEAN"}
        assert database.select(query.sql) == []
    variables = set(re.findall(r"getvariable\('(\w+)'\)", query.sql))
    assert variables == query.params.keys()
    for relation in query.relations:  # what it does not read is clutter
        assert re.search(rf"\b{relation}\b", query.sql), relation


def test_each_fact_of_comparability_has_a_place_of_its_own() -> None:
    """Facts with equal consequences are listed in the order of their positions."""
    facts = re.findall(
        r"'position': (\d+), 'field': '([^']+)'|SELECT [\w.]*side, (\d+), '([^']+)'",
        question("comparability").sql,
    )
    places = [int(first or second) for first, _, second, _ in facts]
    names = [first or second for _, first, _, second in facts]
    assert len(places) == len(set(places)) == len(set(names)) == 28


@pytest.mark.slow
def test_what_differs_and_what_that_means() -> None:
    made = MadeTrace()
    described(made, "a", 4)
    described(made, "b", 8, framework_version="2.14.0", precision=None)
    rows = by(answers(made)["comparability"], "field")
    assert rows["framework version"] == {
        "field": "framework version", "a": "2.13.0", "b": "2.14.0", "differs": True,
        "matters": "may explain",
    }  # fmt: skip
    assert rows["framework version"]["matters"] == "may explain"
    assert (rows["precision"]["a"], rows["precision"]["b"]) == ("fp32", None)
    assert rows["precision"]["matters"] == "may explain"
    for same in ("model", "profiler", "kind of trace", "iterations told by", "world size"):
        assert not rows[same]["differs"]
        assert rows[same]["matters"] is None
    assert "variant" not in rows  # nobody says


@pytest.mark.slow
@pytest.mark.parametrize(
    ("field", "change"),
    one_in(
        3,
        [
            ("model", {"model": "bert"}),
            ("scale", {"scale": "small"}),
            ("data set", {"dataset": "ImageNet"}),
            ("profiler", {"tool": "nvprof"}),
            ("profiler", {"tool": "torch"}),
            ("synthetic", {"synthetic": True}),
        ],
    ),
)
def test_other_work_is_not_comparable(field: str, change: dict[str, Any]) -> None:
    made = MadeTrace()
    described(made, "a")
    described(made, "b", **change)
    rows = answers(made)["comparability"]
    assert rows[0]["field"] == field
    assert rows[0]["matters"] == "not comparable"
    assert sum(row["differs"] for row in rows) == 1


@pytest.mark.slow
def test_accumulation_and_checkpointing_may_explain_a_difference() -> None:
    said = {"gradient_accumulation": 1, "activation_checkpointing": False}
    for options, fields in (
        (said, set()),
        (said | {"gradient_accumulation": 4}, {"gradient accumulation"}),
        (said | {"activation_checkpointing": True}, {"activation checkpointing"}),
    ):
        made = MadeTrace()
        described(made, "a")
        described(made, "b", **options)
        rows = by(answers(made)["comparability"], "field")
        assert {name for name, row in rows.items() if row["differs"]} == fields
        assert all(rows[name]["matters"] == "may explain" for name in fields)


@pytest.mark.slow
def test_the_version_of_a_profiler_is_that_of_the_file_or_else_of_the_capture() -> None:
    for own, expected in (("2024.1", "2024.1"), (None, "2022.4")):
        made = MadeTrace()
        for trace_id in ("a", "b"):
            capture = json.dumps(SAID | {"profiler_version": "2022.4"})
            made.add_trace(trace_id, tool="nsys", tool_version=own, capture=capture)
        row = by(answers(made)["comparability"], "field")["profiler version"]
        assert (row["a"], row["differs"]) == (expected, False)


@pytest.mark.slow
def test_what_only_one_side_says_is_uncertain() -> None:
    made = MadeTrace()
    described(made, "a")
    add_iterations(made, "b", [1000, 1010, 990, 1000, 1010])
    rows = by(answers(made)["comparability"], "field")
    assert rows["model"]["matters"] == "uncertain"
    assert rows["framework"]["matters"] == "may explain"


@pytest.mark.slow
def test_kernels_of_whole_traces() -> None:
    """A: gemm 2 x 100 ns, old 30. B: gemm 3 x 120 and one of another grid, 50."""
    made = MadeTrace()
    for start in (0, 200):
        made.add_kernel(start, start + 100, "gemm", grid_x=4, trace_id="a")
    made.add_kernel(500, 530, "old", trace_id="a")
    for start in (0, 200, 400):
        made.add_kernel(start, start + 120, "gemm", grid_x=4, trace_id="b")
    made.add_kernel(600, 650, "gemm", grid_x=5, trace_id="b")
    rows = {(row["kernel_name"], row["grid"]): row for row in answers(made)["kernels"]}
    same = rows["gemm", "4"]
    assert (same["a_calls"], same["b_calls"], same["a_ns"], same["b_ns"]) == (2, 3, 200, 360)
    # one call more at (100 + 120) / 2, and 20 ns more in (2 + 3) / 2 calls
    assert same["change_ns"] == 160
    assert same["calls_effect_ns"] == 110
    assert same["duration_effect_ns"] == 50
    assert same["status"] == "unclear, more calls"
    new, gone = rows["gemm", "5"], rows["old", None]
    assert (new["status"], new["change_ns"], new["calls_effect_ns"]) == ("new", 50, 50)
    assert (gone["status"], gone["change_ns"], gone["duration_effect_ns"]) == ("gone", -30, 0)
    assert {row["per"] for row in rows.values()} == {"whole trace"}


@pytest.mark.slow
def test_kernels_of_summaries() -> None:
    """Neither side has a timeline, and so no window."""
    made = MadeTrace()
    for trace, total in (("a", 100), ("b", 160)):
        made.add_trace(trace, kind="summary")
        made.add("kernel_aggregate", name="gemm", instances=2, total_ns=total, trace_id=trace)
    (row,) = answers(made)["kernels"]
    assert (row["per"], row["a_calls"], row["b_calls"]) == ("whole trace", 2, 2)
    assert (row["a_ns"], row["b_ns"], row["change_ns"]) == (100, 160, 60)


@pytest.mark.slow
def test_kernels_per_iteration() -> None:
    """All iterations count: 4 in A and 6 in B, each with one kernel of 100 ns."""
    made = MadeTrace()
    add_iterations(made, "a", [1000, 3000, 1000])
    add_iterations(made, "b", [1000, 3000, 1000, 3000, 1000])
    (row,) = answers(made)["kernels"]
    assert (row["a_calls"], row["b_calls"], row["a_ns"], row["b_ns"]) == (1, 1, 100, 100)
    assert (row["change_ns"], row["status"]) == (0, None)
    assert row["per"] == "iteration of a process"


@pytest.mark.slow
def test_slower_needs_three_standard_errors_and_the_smallest_change() -> None:
    def status(a: list[int], b: list[int], **parameters: float) -> str | None:
        made = MadeTrace()
        for trace, durations in (("a", a), ("b", b)):
            for number, duration in enumerate(durations):
                made.add_kernel(1000 * number, 1000 * number + duration, "gemm", trace_id=trace)
        (row,) = answers(made, **parameters)["kernels"]
        return None if row["status"] is None else str(row["status"])

    # sample deviation 1 and 1: standard error of the difference sqrt(2 / 3) = 0.816, times 3 2.449
    assert status([99, 100, 101], [102, 103, 104]) == "slower"
    assert status([99, 100, 101], [101, 102, 103]) is None
    assert status([102, 103, 104], [99, 100, 101]) == "faster"
    assert status([99, 100, 101], [102, 103, 104], min_change_pct=3.5) is None


@pytest.mark.slow
@settings(max_examples=examples(3))
@example([("a", "y", 1), ("a", "x", 1)] * 3 + [("b", "x", 2)])
@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"), st.integers(1, 500)),
        min_size=2,
        max_size=30,
    )
)
def test_effects_add_up_and_every_kernel_is_counted(kernels: list[tuple[str, str, int]]) -> None:
    made = MadeTrace()
    made.add_trace("a")
    made.add_trace("b")
    for number, (trace, name, duration) in enumerate(kernels):
        at = 1000 * number
        made.add_kernel(at, at + duration, name, trace_id=trace)
    # No anchor scores so much: names that take turns are no iterations here.
    rows = answers(made, min_confidence=2.0)["kernels"]
    assert "iteration of a process" not in {row["per"] for row in rows}
    for side in "ab":
        assert sum(row[f"{side}_ns"] for row in rows) == sum(d for t, _, d in kernels if t == side)
        assert sum(row[f"{side}_calls"] for row in rows) == sum(t == side for t, *_ in kernels)
    for row in rows:
        assert row["change_ns"] == row["b_ns"] - row["a_ns"]
        assert row["change_ns"] == row["calls_effect_ns"] + row["duration_effect_ns"]


@pytest.mark.slow
def test_processes_without_iterations_are_left_out_beside_others() -> None:
    made = MadeTrace()
    for trace in "ab":
        add_iterations(made, trace, [1000, 1000, 1000])
        made.add_kernel(0, 700, "stray", trace_id=trace, process_id=2)
    found = answers(made)
    assert [row["kernel_name"] for row in found["kernels"]] == ["multiply"]
    assert {row["per"] for row in found["layers"]} == {"iteration of a process"}
    assert sum(row["a_ns"] for row in found["layers"]) == 100


@pytest.mark.slow
def test_sides_of_which_one_tells_iterations() -> None:
    made = MadeTrace()
    add_iterations(made, "a", [1000, 1000, 1000])
    made.add_kernel(0, 100, "multiply", trace_id="b")
    found = answers(made)
    (row,) = found["kernels"]
    assert (row["per"], row["change_ns"], row["calls_effect_ns"]) == ("not alike", None, None)
    assert (row["a_mean_ns"], row["b_mean_ns"]) == (100, 100)
    (layer,) = found["layers"]
    assert (layer["per"], layer["change_ns"]) == ("not alike", None)


def layered(made: MadeTrace, trace: str, layers: dict[str, int]) -> None:
    """Add six iterations of 10 µs in which each layer has one kernel of that length."""
    for number in range(6):
        start = at = 10_000 * number
        made.add_range(start, start + 9_990, f"step {number}", trace_id=trace)
        for layer, duration in layers.items():
            made.add_range(at, at + 20, f"layer:{layer}", trace_id=trace)
            made.launch(at + 5, at + 1000, at + 1000 + duration, layer, trace_id=trace)
            at += 1000


@pytest.mark.slow
def test_layers_per_iteration() -> None:
    made = MadeTrace()
    layered(made, "a", {"conv": 600, "fc": 200, "old": 200})
    layered(made, "b", {"conv": 450, "fc": 200, "new": 850})
    rows = by(answers(made)["layers"], "layer")
    conv = rows["conv"]
    assert (conv["a_ns"], conv["b_ns"], conv["change_ns"]) == (600, 450, -150)
    assert conv["change_pct"] == pytest.approx(-25)
    assert (conv["share_a_pct"], conv["share_b_pct"]) == pytest.approx((60, 30))
    assert (conv["status"], conv["clock"], conv["per"]) == (
        "in both",
        "gpu",
        "iteration of a process",
    )
    assert (rows["fc"]["change_ns"], rows["old"]["status"], rows["new"]["status"]) == (
        0,
        "gone",
        "new",
    )
    for layer, share in (("old", (20, 0)), ("new", (0, 100 * 850 / 1500))):
        assert (rows[layer]["share_a_pct"], rows[layer]["share_b_pct"]) == pytest.approx(share)
    assert list(rows) == ["new", "old", "conv", "fc"]


@pytest.mark.slow
def test_utilization_sets_like_against_like() -> None:
    made = MadeTrace()
    layered(made, "a", {"conv": 600})
    layered(made, "b", {"conv": 900})
    found = answers(made)["utilization"]
    rows = by([row for row in found if row["rank"] == 0], "measure")
    assert set(rows) == {
        "gpu_busy_pct", "kernel_busy_pct", "compute_pct", "exposed_communication_pct",
        "exposed_copy_pct", "idle_pct",
    }  # fmt: skip
    # All six count: the first is no slower than the others, and the last range ends 10 ns before
    # the next one would begin. With it ends the last period.
    elapsed = 6 * 10_000 - 10
    busy = rows["gpu_busy_pct"]
    assert busy["a_pct"] == pytest.approx(100 * 6 * 600 / elapsed)
    assert busy["b_pct"] == pytest.approx(100 * 6 * 900 / elapsed)
    assert busy["change_points"] == pytest.approx(100 * 6 * 300 / elapsed)
    assert (busy["a_ns"], busy["b_ns"]) == (600, 900)
    for absent in ("exposed_communication_pct", "exposed_copy_pct"):
        assert (rows[absent]["a_ns"], rows[absent]["b_ns"]) == (0, 0)
    assert rows["idle_pct"]["b_ns"] - rows["idle_pct"]["a_ns"] == pytest.approx(-300)


@pytest.mark.slow
def test_times_of_several_operations_are_added() -> None:
    made = MadeTrace()
    for name in ("a", "b"):
        add_iterations(made, name, [1000] * 6)
        for start in range(1000, 7000, 1000):
            for begin, end in ((200, 230), (300, 350)):
                made.launch(
                    start + 2, start + begin, start + end,
                    "ncclDevKernel_AllReduce_Sum_f32_RING_LL", trace_id=name,
                )  # fmt: skip
            made.add_memcpy(start + 400, start + 420, trace_id=name)
            made.add_memcpy(start + 500, start + 510, trace_id=name)
    rows = by(answers(made)["utilization"], "measure")
    took = {"exposed_communication_pct": 80, "exposed_copy_pct": 30, "compute_pct": 100,
            "gpu_busy_pct": 210, "kernel_busy_pct": 180, "idle_pct": 790}  # fmt: skip
    assert {name: (row["a_ns"], row["b_ns"]) for name, row in rows.items()} == {
        name: (ns, ns) for name, ns in took.items()
    }


@pytest.mark.slow
def test_ranks_without_iterations_are_compared_over_the_trace() -> None:
    made = MadeTrace()
    for name, calls in (("a", [(0, 100), (200, 300)]), ("b", [(0, 50)])):
        made.add_trace(name, name=f"{name}.json")
        made.add("job_rank", trace_id=name, job=name, rank=0, world_size=1)
        for number, (start, end) in enumerate(calls):
            made.add(
                "collective_record", trace_id=name, record_id=number, source="gloo",
                kind="all_reduce", start_ns=start, end_ns=end, process_id=1, thread_id=1,
            )  # fmt: skip
    (row,) = [row for row in answers(made)["ranks"] if row["measure"] == "communication"]
    assert (row["a_ns"], row["b_ns"], row["change_ns"]) == (200, 50, -150)
    assert (row["per_a"], row["per_b"]) == ("trace", "trace")


@pytest.mark.slow
def test_collectives_of_one_side_have_no_instances_on_the_other() -> None:
    made = MadeTrace()
    for name, elements in (("a", 1000), ("b", 2000)):
        made.add_trace(name, name=f"{name}.json")
        made.add("job_rank", trace_id=name, job=name, rank=0, world_size=1)
        made.add(
            "collective_record", trace_id=name, record_id=1, source="gloo", kind="all_reduce",
            start_ns=0, end_ns=100, process_id=1, thread_id=1, input_elements=elements,
            dtype="float",
        )  # fmt: skip
    rows = answers(made)["collectives"]
    assert {row["bytes"]: (row["a_collectives"], row["b_collectives"]) for row in rows} == {
        4000: (1, 0),
        8000: (0, 1),
    }


@pytest.mark.slow
def test_counted_utilization_is_that_of_the_process() -> None:
    """500 FLOP ÷ 100 FLOP/ns in kernels of 500 ns are 1 %, and twice as many in B 2 %."""
    made = MadeTrace()
    for trace, pid, flop in (("a", 70, 500.0), ("b", 80, 1000.0)):
        layered(made, trace, {"conv": 500})
        made.add_device(trace_id=trace)
        made.add("process", trace_id=trace, process_id=1, pid=pid)
        for row in [row for row in made.rows["kernel"] if row["trace_id"] == trace]:
            made.add_metric(row["kernel_id"], "flop_count_sp", flop, trace_id=trace)
    found = [row for row in answers(made)["utilization"] if row["measure"] == "fp32 busy_pct"]
    assert found
    for row in found:
        assert (row["a_pct"], row["b_pct"]) == (pytest.approx(1), pytest.approx(2))


@pytest.mark.slow
def test_without_iterations_kernels_are_counted_over_the_whole_trace() -> None:
    made = MadeTrace()
    for trace, duration in (("a", 100), ("b", 300)):
        made.launch(1, 50, 50 + duration, "multiply", trace_id=trace)
    (row,) = answers(made)["kernels"]
    assert (row["kernel_name"], row["per"]) == ("multiply", "whole trace")
    assert (row["a_ns"], row["b_ns"], row["change_ns"]) == (100, 300, 200)


@pytest.mark.slow
def test_a_number_is_not_set_against_one_with_other_evidence() -> None:
    made = MadeTrace()
    for trace in "ab":
        layered(made, trace, {"conv": 500})
        made.add_device(trace_id=trace)
    kernels = [row["kernel_id"] for row in made.rows["kernel"] if row["trace_id"] == "a"]
    for kernel in kernels:
        made.add_metric(kernel, "flop_count_sp", 1000.0, trace_id="a")
    found = [row for row in answers(made)["utilization"] if row["measure"].startswith("fp32")]
    assert found
    for row in found:
        assert row["evidence"] == "counter"
        assert row["a_pct"] is not None
        assert row["b_pct"] is row["change_points"] is None


@pytest.mark.slow
def test_a_trace_with_itself_shows_no_difference() -> None:
    made = MadeTrace()
    described(made, "a")
    found = answers(made, b=("a",))
    assert not any(row["differs"] for row in found["comparability"])
    assert {row["change_ns"] for row in found["kernels"]} == {0}
    assert {row["status"] for row in found["kernels"]} == {None}
    assert {row["change_ns"] for row in found["layers"]} == {0}
    assert {row["change_points"] for row in found["utilization"]} == {0}
