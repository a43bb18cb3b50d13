"""Operators and modules of torch.profiler traces: a worked example and a live run of PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import made_kineto as made
import tbd_trace
from made_kineto import document, event, kernel, launch, operator, write
from tbd_trace.errors import CannotAnswerError

SHAPES = {"Input Dims": [[8, 4], [4, 2]]}


def module(name: str, number: int, parent: int | None, ts: int, dur: int) -> made.Event:
    args = {"Python id": number, "Python parent id": parent}
    return event("python_function", f"nn.Module: {name}", ts, dur, args=args)


def on_backward_thread(made_event: made.Event) -> made.Event:
    return made_event | {"tid": 99}


# A step of a model Net with one Linear, in microseconds: two products of 8 us forward, a copy, a
# product of 20 us backward, and a kernel outside of all operators.
STEP = document(
    [
        event("user_annotation", "ProfilerStep#3", 0, 1000),
        event("user_annotation", "mine", 5, 400),
        module("Net_0", 1, None, 10, 300),
        module("Linear_0", 2, 1, 20, 100),
        operator("aten::linear", 30, 80, **{"Sequence number": 7}, **SHAPES),
        operator("aten::mm", 40, 30, **{"Sequence number": 7}, **SHAPES),
        launch(45, 1),
        kernel(500, 8, 1),
        launch(55, 2),
        kernel(510, 8, 2),
        operator("aten::add", 150, 10),
        launch(155, 3),
        kernel(520, 3, 3, name="add"),
        launch(330, 4),
        kernel(530, 5, 4, name="alone"),
        on_backward_thread(operator("AddmmBackward0", 600, 50, **{"Sequence number": 7})),
        on_backward_thread(operator("aten::mm", 610, 20, **{"Input Dims": [[2, 8]]})),
        on_backward_thread(launch(615, 5)),
        kernel(700, 20, 5),
    ]
)


@pytest.fixture
def answers(tmp_path: Path) -> Any:
    path = write(tmp_path / "step.json", STEP)
    with tbd_trace.open(path) as traces:
        yield traces.query


@pytest.mark.slow
def test_operators(answers: Any) -> None:
    frame = answers("op_summary")
    columns = (
        "op", "input_shapes", "calls", "host_ns", "self_host_ns", "gpu_ns", "self_gpu_ns",
        "launches",
    )  # fmt: skip
    found = {row[:2]: row[2:] for row in frame.select(columns).rows()}
    both = "[[8, 4], [4, 2]]"
    assert found == {
        ("ProfilerStep#3", None): (1, 1_000_000, 600_000, 24_000, 0, 4),
        # Two operators of 90 us and a call of 2 us are inside, but no operator around the call.
        ("mine", None): (1, 400_000, 308_000, 24_000, 5_000, 4),
        ("aten::linear", both): (1, 80_000, 50_000, 16_000, 0, 2),
        ("aten::mm", both): (1, 30_000, 26_000, 16_000, 16_000, 2),
        ("aten::add", None): (1, 10_000, 8_000, 3_000, 3_000, 1),
        ("AddmmBackward0", None): (1, 50_000, 30_000, 20_000, 0, 1),
        ("aten::mm", "[[2, 8]]"): (1, 20_000, 18_000, 20_000, 20_000, 1),
    }
    assert frame["self_gpu_pct"].sum() == pytest.approx(100)


def test_operators_by_name(answers: Any) -> None:
    frame = answers("op_summary", by="name").filter(pl.col("op") == "aten::mm")
    assert frame.select("calls", "self_gpu_ns", "self_gpu_pct").rows() == [
        (2, 36_000, pytest.approx(100 * 36 / 44))
    ]


@pytest.mark.slow
@pytest.mark.parametrize("marks", [[], [event("user_annotation", "layer:net", 190, 100)]])
def test_work_outside_of_operators_has_a_row(marks: list[made.Event], tmp_path: Path) -> None:
    events = [operator("aten::mm", 40, 30), launch(200, 4), kernel(530, 5, 4), *marks]
    with tbd_trace.open(write(tmp_path / "alone.json", document(events))) as traces:
        rows = traces.query("op_summary").select("op", "calls", "self_gpu_ns", "launches").rows()
    assert rows == [(None, 0, 5_000, 1), ("aten::mm", 1, 0, 0)]


@pytest.mark.slow
def test_marks_of_the_program_are_no_operators(answers: Any, tmp_path: Path) -> None:
    marks = [
        event("user_annotation", "iteration 0", 2, 500),
        event("user_annotation", "phase:forward", 11, 298),
        event("user_annotation", "layer:net", 12, 296),
        event("user_annotation", "layer:net.fc", 25, 90),
        on_backward_thread(event("user_annotation", "layer_backward:net.fc", 605, 30)),
    ]
    trace = write(tmp_path / "marked.json", document([*STEP["traceEvents"], *marks]))
    with tbd_trace.open(trace) as traces:
        marked = traces.query("op_summary").drop("trace_id")
    assert marked.rows() == answers("op_summary").drop("trace_id").rows()


@pytest.mark.slow
def test_modules(answers: Any) -> None:
    columns = (
        "module", "class", "calls", "host_ns", "self_host_ns", "gpu_ns", "self_gpu_ns",
        "forward_ns", "backward_ns", "recompute_ns", "evidence",
    )  # fmt: skip
    both = "torch module + sequence"
    assert answers("module_summary").select(columns).rows() == [
        ("Net_0", "Net", 1, 300_000, 200_000, 39_000, 3_000, 19_000, 20_000, 0, both),
        ("Net_0/Linear_0", "Linear", 1, 100_000, 100_000, 36_000, 0 + 36_000, 16_000, 20_000, 0,
         both),
    ]  # fmt: skip


@pytest.mark.slow
def test_layers_are_modules_with_the_evidence_of_the_profiler(answers: Any) -> None:
    frame = answers("layer_time").filter(pl.col("layer") == "Net_0/Linear_0")
    assert sorted(frame.select("phase", "gpu_ns", "evidence").rows()) == [
        ("backward", 20_000, "sequence"),
        ("forward", 16_000, "torch module"),
    ]
    assert answers("iteration_timing")["method"].unique().to_list() == ["torch range"]


@pytest.mark.slow
def test_marked_layers_win_over_the_calls_of_modules(answers: Any, tmp_path: Path) -> None:
    """Names and times are those of the marks; modules still sum up the work of their layers."""
    marks = [
        event("user_annotation", "layer:net", 12, 296),
        event("user_annotation", "layer:net.fc", 25, 90),
        on_backward_thread(event("user_annotation", "layer_backward:net.fc", 605, 30)),
    ]
    trace = write(tmp_path / "marked.json", document([*STEP["traceEvents"], *marks]))
    with tbd_trace.open(trace) as traces:
        time = traces.query("layer_time").filter(pl.col("layer").is_not_null())
        modules = traces.query("module_summary")
    assert sorted(time.select("layer", "phase", "gpu_ns", "evidence").rows()) == [
        ("mine", None, 5_000, "torch range"),
        ("net", None, 3_000, "torch range"),
        ("net.fc", "backward", 20_000, "torch range backward"),
        ("net.fc", "forward", 16_000, "torch range"),
    ]
    plain = answers("module_summary")
    same = [name for name in plain.columns if name not in ("trace_id", "evidence")]
    assert modules.select(same).rows() == plain.select(same).rows()
    assert modules["evidence"].to_list() == ["torch range"] * 2


@pytest.mark.slow
def test_a_layer_pattern_of_the_user_wins_over_both(tmp_path: Path) -> None:
    marks = [event("user_annotation", "layer:net", 12, 296)]
    trace = write(tmp_path / "marked.json", document([*STEP["traceEvents"], *marks]))
    with tbd_trace.open(trace) as traces:
        layers = traces.query("layer_time", layer_pattern="^Net_0/(.*)$")["layer"].to_list()
    assert "Linear_0" in layers
    assert "net" not in layers


@pytest.mark.slow
def test_without_operators_the_queries_say_how_to_record_them(tmp_path: Path) -> None:
    path = write(tmp_path / "gpu.json", document([launch(1, 1), kernel(5, 5, 1)]))
    with tbd_trace.open(path) as traces:
        for query, wanted in (("op_summary", "operators"), ("module_summary", "with_stack")):
            with pytest.raises(CannotAnswerError, match=wanted):
                traces.query(query)


def test_layer_types_are_those_of_the_modules(answers: Any) -> None:
    frame = answers("layer_time").filter(pl.col("layer") == "Net_0/Linear_0")
    assert frame["layer_type"].unique().to_list() == ["GEMM"]


@pytest.mark.parametrize(
    ("by", "wanted"),
    [
        ("module", {"Net_0/Linear_0": 36_000, "Net_0": 3_000, None: 5_000}),
        ("op", {"aten::mm": 36_000, "aten::add": 3_000, "mine": 5_000}),
        ("class", {"GEMM": 36_000, "elementwise": 3_000, None: 5_000}),
    ],
)
def test_time_by_module_operator_and_class(
    answers: Any, by: str, wanted: dict[str | None, int]
) -> None:
    frame = answers("layer_time", by=by).group_by("layer").agg(pl.col("gpu_ns").sum())
    assert dict(frame.rows()) == wanted
    nameless = answers("layer_time", by=by).filter(pl.col("layer").is_null())
    assert nameless["evidence"].to_list() == [None] * nameless.height


@pytest.mark.slow
def test_kernels_of_a_graph_have_no_layer(tmp_path: Path) -> None:
    """The module around the launch of a graph shows nothing about the kernels inside."""
    events = [
        module("Net_0", 1, None, 0, 100),
        launch(10, 1, name="cudaGraphLaunch"),
        kernel(200, 30, 1),
        kernel(240, 20, 1, name="add"),
        launch(50, 2),
        kernel(300, 50, 2),
    ]
    with tbd_trace.open(write(tmp_path / "graph.json", document(events))) as traces:
        rows = traces.query("layer_time").select("layer", "kernels", "gpu_ns").rows()
        (notes,) = traces.query("trace_info")["notes"].to_list()
    assert sorted(rows, key=str) == [("Net_0", 1, 50_000), (None, 2, 50_000)]
    assert any(
        note.startswith("kernels launched by graphs: 2 of 3 (50.0 % of the kernel time)")
        for note in notes
    )


@pytest.mark.slow
def test_kernels_without_a_launch_are_counted(tmp_path: Path) -> None:
    events = [operator("aten::mm", 0, 9), launch(1, 1), kernel(20, 5, 1), kernel(30, 5, 99)]
    with tbd_trace.open(write(tmp_path / "cut.json", document(events))) as traces:
        (notes,) = traces.query("trace_info")["notes"].to_list()
    assert any(note.startswith("kernels without a launching call: 1 of 2") for note in notes)


torch = pytest.importorskip("torch")


@pytest.mark.slow
def test_operators_equal_key_averages_of_a_live_run(tmp_path: Path) -> None:
    """Calls exactly, times within 1 us a call, which PyTorch rounds to."""
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Flatten(),
        torch.nn.Linear(4 * 36, 5),
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters())
    inputs, labels = torch.randn(2, 3, 8, 8), torch.tensor([1, 2])
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True
    ) as profiler:
        for _ in range(2):
            optimizer.zero_grad()
            with torch.profiler.record_function("forward"):
                loss = torch.nn.functional.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
    profiler.export_chrome_trace(str(tmp_path / "live.json"))
    with tbd_trace.open(tmp_path / "live.json") as traces:
        rows = traces.query("op_summary").to_dicts()
    found = {(row["op"], row["input_shapes"] or "[]"): row for row in rows}
    wanted = profiler.key_averages(group_by_input_shape=True)
    assert len(wanted) > 40
    for entry in wanted:
        row = found.pop((entry.key, str(entry.input_shapes)))
        assert row["calls"] == entry.count
        assert row["host_ns"] == pytest.approx(1e3 * entry.cpu_time_total, abs=1e3 * entry.count)
        own = 1e3 * entry.self_cpu_time_total
        assert row["self_host_ns"] == pytest.approx(own, abs=1e3 * entry.count)
        assert row["gpu_ns"] is None
    assert not found
