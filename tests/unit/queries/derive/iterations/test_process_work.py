"""Work of the iterations of a process, worked out by hand for a small trace of PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tbd_trace
from made_kineto import Event, document, event, kernel, launch, operator, write

FLOAT = {"Input type": ["float"] * 3}
PASS = 100


def dims(*shapes: list[Any]) -> dict[str, Any]:
    return {"Input Dims": list(shapes), **FLOAT}


def nested(name: str, ts: int, *inner: Event, dur: int = 8, **args: Any) -> list[Event]:
    return [operator(name, ts, dur, **args), *inner]


def step(number: int, start: int) -> list[Event]:
    """A step of 1000 us: rows 6 and 10 in turn, weights 4 × 5, a loss, gradients and an update."""
    rows = 6 if number % 2 else 10
    at = lambda offset: start + offset  # noqa: E731
    return [
        event("user_annotation", f"step {number}", start, 1000),
        *nested(
            "aten::linear", at(10),
            operator("aten::addmm", at(11), 4, **dims([5], [rows, 4], [4, 5])),
            **dims([rows, 4], [5, 4], [5]),
        ),
        *nested(
            "aten::cross_entropy_loss", at(30),
            operator("aten::nll_loss_forward", at(31), 3, **dims([rows, 5], [rows])),
            **dims([rows, 5], [rows]),
        ),
        *nested(
            "autograd::engine::evaluate_function: AddmmBackward0", at(PASS),
            *nested(
                "AddmmBackward0", at(PASS + 1),
                operator("aten::mm", at(PASS + 2), 2, **dims([5, rows], [rows, 4])),
                dur=5, **{"Sequence number": number},
            ),
        ),
        operator("torch::autograd::AccumulateGrad", at(200), 2, **dims([5, 4])),
        operator("torch::autograd::AccumulateGrad", at(210), 2, **dims([5])),
        operator("aten::add_", at(250), 2, **dims([7, 7])),  # outside of the optimizer
        event("user_annotation", "Optimizer.step#SGD.step", at(300), 50),
        *nested(
            "aten::_foreach_add_", at(305),
            operator("aten::add_", at(306), 1, **dims([5, 4], [5, 4])),
            operator("aten::add_", at(308), 1, **dims([5], [5])),
            **{"Input Dims": [[[5, 4], [5]], [[5, 4], [5]]]},
        ),
    ]  # fmt: skip


def answer(path: Path, events: list[Event]) -> dict[str, Any]:
    with tbd_trace.open(write(path / "t.json", document(events))) as traces:
        (row,) = traces.query("step_work").to_dicts()
    return dict(row)


@pytest.fixture(scope="module")
def row(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    events = [each for number in range(4) for each in step(number, 1000 * number)]
    return answer(tmp_path_factory.mktemp("work"), events)


def test_products_are_means_over_the_steps(row: dict[str, Any]) -> None:
    assert row["iterations"] == 4
    assert row["forward_flop"] == row["forward_size"] == 2 * 8 * 4 * 5
    assert row["backward_flop"] == 2 * 5 * 8 * 4
    assert row["recomputed_flop"] == 0
    assert (row["rows"], row["parameters"]) == (8, 20)
    # Of 400, 240, 400 and 240 FLOP.
    assert row["flop_error_pct"] == pytest.approx(100 * (4 * 80**2 / 3) ** 0.5 / 2 / 320)


def test_losses_gradients_and_updates(row: dict[str, Any]) -> None:
    assert (row["losses"], row["loss_values"]) == (1, 8 * 5)
    assert row["trained_values"] == 25
    assert (row["updated_values"], row["update"]) == (25, "add")
    assert row["has_backward"] and row["has_optimizer"]


def test_what_the_trace_lacks_is_null(row: dict[str, Any]) -> None:
    unknown = ("batch", "sequence", "positions", "input_bytes", "kernels", "matrix_kernels")
    assert {row[name] for name in unknown} == {None}
    assert (row["collectives"], row["exchanged_values"]) == (0, 0)
    assert (row["precision"], row["is_compiled"], row["uses_graphs"]) == ("float32", False, False)
    assert row["evidence"] == "shapes"


def test_momentum_adds_to_buffers_that_do_not_count(tmp_path: Path) -> None:
    events = []
    for number in range(3):
        start = 1000 * number
        events += [
            event("user_annotation", f"step {number}", start, 1000),
            event("user_annotation", "Optimizer.step#SGD.step", start + 300, 50),
            operator("aten::mul_", start + 301, 1, **dims([5, 4])),
            operator("aten::add_", start + 303, 1, **dims([5, 4], [5, 4])),
            operator("aten::add_", start + 305, 1, **dims([5, 4], [5, 4])),
        ]
    assert answer(tmp_path, events)["updated_values"] == 20


def test_convolutions_and_attention_tell_samples_and_positions(tmp_path: Path) -> None:
    values = {"Concrete Inputs": ["", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1"]}
    shape = {"Input Dims": [[8, 3, 16, 16], [4, 3, 3, 3], [], [], [], [], [], [], []]}
    events = []
    for number in range(3):
        start = 1000 * number
        events += [
            event("user_annotation", f"step {number}", start, 1000),
            operator("aten::convolution", start + 10, 5, **shape, **values),
            operator(
                "aten::_scaled_dot_product_flash_attention", start + 30, 5,
                **{"Input Dims": [[8, 2, 12, 4]] * 3 + [[], []]},
                **{"Concrete Inputs": ["", "", "", "0.", "False"]},
            ),
            launch(start + 50, number),
            kernel(start + 60, 5, number, "ampere_sgemm_128x64_tn"),
        ]  # fmt: skip
    found = answer(tmp_path, events)
    assert (found["batch"], found["sequence"]) == (8, 12)
    assert found["positions"] == 8 * 8  # of the output, at stride 2
    convolution, attention = 2 * 8 * 108, 2 * 8 * 2 * (4 + 4) * 12 * 12
    assert found["forward_flop"] == convolution * 64 + attention
    assert found["forward_size"] == convolution * 256 + attention
    assert (found["kernels"], found["matrix_kernels"], found["input_bytes"]) == (1, 1, 0)


@pytest.mark.parametrize(
    ("name", "weights"),
    [("aten::mkldnn_rnn_layer", [[32, 6], [32, 8]]), ("aten::_cudnn_rnn", [[[32, 6], [32, 8]]])],
)
def test_fused_recurrent_layers_use_their_weights_at_each_position(
    tmp_path: Path, name: str, weights: list[Any]
) -> None:
    events = []
    for number in range(3):
        start = 1000 * number
        events += [
            event("user_annotation", f"step {number}", start, 1000),
            operator("aten::mm", start + 5, 2, **dims([4, 5], [5, 6])),
            operator(name, start + 10, 5, **dims([10, 8, 6], *weights, [32], [32])),
            operator(f"{name}_backward", start + 30, 5, **dims([10, 8, 6], *weights, [32])),
        ]
    found = answer(tmp_path, events)
    forward = 2 * 10 * 8 * (32 * 6 + 32 * 8)
    assert found["forward_flop"] == forward + 2 * 4 * 5 * 6
    assert found["backward_flop"] == 2 * forward
