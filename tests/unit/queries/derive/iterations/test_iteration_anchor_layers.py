"""_iteration_anchor, _iteration_family: layers and micro-batches repeat, but are parts of steps."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import pytest

from made_trace import MadeTrace, Row, relation

STEP = 10  # from one launch to the next
BLOCK = ["norm", "gemm", "attention", "gemm_out"]
MICRO_BATCH = [f"k{i}" for i in range(40)]


def launch(made: MadeTrace, names: Iterable[str], at: int = STEP) -> list[int]:
    """Launch kernels one after the other from ``at`` on and return when."""
    launched = []
    for name in names:
        made.launch(at, at + 5, at + 13, name)
        launched.append(at)
        at += STEP
    return launched


def call(made: MadeTrace, start: int, end: int, text: str, source: str = "module") -> None:
    """Add a call of a module or an operator, or a range of the program."""
    made.add_range(start, end, text, source=source, domain_id=0 if source == "python" else -1)


def periods(made: MadeTrace) -> list[Row]:
    return relation(made, "_iteration_anchor")


def starts(made: MadeTrace) -> list[int]:
    return [row["start_ns"] for row in periods(made)]


def one_pass(made: MadeTrace, blocks: int = 10) -> tuple[int, int]:
    """Launch one forward pass of equal blocks; return when it starts and ends."""
    launched = launch(made, ["embed", *BLOCK * blocks, "head"])
    return launched[0], launched[-1]


# one pass of equal blocks


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("Transformer_0", "module"),
        ("aten::transformer_encoder, seq = 4, op_id = 9", "operator"),
        ("forward", "python"),
        ("DistributedDataParallel.forward", "python"),
    ],
)
def test_blocks_inside_one_call_are_no_steps(text: str, source: str) -> None:
    made = MadeTrace()
    start, end = one_pass(made)
    call(made, start - 5, end + 5, text, source)
    assert periods(made) == []


@pytest.mark.slow
@pytest.mark.parametrize("text", ["train", "main", "resnet50_inference", "profiled region"])
def test_a_range_of_any_name_around_many_repeats_does_not_hide_them(text: str) -> None:
    made = MadeTrace()
    start, end = one_pass(made)
    call(made, start - 5, end + 5, text, "python")
    assert 9 <= len(periods(made)) <= 10


@pytest.mark.slow
def test_repeats_that_are_each_one_call_are_steps() -> None:
    made = MadeTrace()
    launched = launch(made, ["copy", *BLOCK, "loss"] * 8)
    for start in launched[::6]:
        call(made, start + 5, start + 4 * STEP + 5, "Net_0")
    assert starts(made) == launched[::6]


@pytest.mark.slow
def test_passes_are_found_where_blocks_repeat_inside_each() -> None:
    made = MadeTrace()
    length = 2 + 12 * len(BLOCK)
    launched = launch(made, ["embed", *BLOCK * 12, "head"] * 5)
    for start in launched[::length]:
        call(made, start - 2, start + (length - 1) * STEP + 5, "Transformer_0")
    assert starts(made) == launched[::length]


@pytest.mark.slow
def test_a_call_on_another_thread_proves_nothing() -> None:
    made = MadeTrace()
    start, end = one_pass(made)
    made.add_range(start - 5, end + 5, "Loader_0", source="module", domain_id=-1, thread_id=2)
    assert len(periods(made)) >= 9


@pytest.mark.slow
def test_a_call_that_never_ended_proves_nothing() -> None:
    made = MadeTrace()
    start, end = one_pass(made)
    made.add_range(start - 5, end + 5, "Net_0", source="module", domain_id=-1, is_open=True)
    assert len(periods(made)) >= 9


# numbered parts, without a call around them


def numbered(made: MadeTrace, texts: Iterable[str], source: str = "nvtx") -> None:
    """Launch one block for each text, with a range of that text around its first kernel."""
    at = STEP
    for number, text in enumerate(texts):
        launch(made, BLOCK, at)
        made.add_range(
            at - 2, at + 8, f"{text}, op_id = {number}" if "::" in text else text, source=source
        )
        at += STEP * len(BLOCK)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("FSDP::pre_forward (encoder.block.{}.layer.0)", "nvtx"),
        ("layer_{}", "nvtx"),
        ("Model_0/Block_{}/Linear_0", "module"),
    ],
)
def test_periods_that_run_another_part_each_are_layers(text: str, source: str) -> None:
    made = MadeTrace()
    numbered(made, [text.format(number) for number in range(12)], source)
    assert periods(made) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("FSDP::pre_forward (encoder.block.3.layer.0)", "nvtx"),
        ("layer_1", "nvtx"),
        ("Model_0/Block_0/Linear_0", "module"),
    ],
)
def test_periods_that_run_the_same_part_each_are_steps(text: str, source: str) -> None:
    made = MadeTrace()
    numbered(made, [text] * 12, source)
    assert len(periods(made)) == 12


@pytest.mark.slow
def test_ranges_that_number_the_steps_are_no_parts() -> None:
    made = MadeTrace()
    numbered(made, [f"compute {number}" for number in range(12)])
    assert len(periods(made)) == 12


@pytest.mark.slow
def test_ranges_inside_one_call_are_no_iterations() -> None:
    made = MadeTrace()
    for is_inside in (False, True):
        trace = f"t{is_inside:d}"
        for number in range(8):
            made.launch(
                100 * number + 10,
                100 * number + 20,
                100 * number + 90,
                f"k{number}",
                trace_id=trace,
            )
            made.add_range(100 * number, 100 * number + 95, "exchange", trace_id=trace)
        if is_inside:
            made.add_range(-5, 900, "Net_0", source="module", domain_id=-1, trace_id=trace)
    rows = relation(made, "_iteration_family")
    assert {row["trace_id"] for row in rows} == {"t0"}
    assert len(rows) == 8


# updates of the weights


@pytest.mark.slow
@pytest.mark.parametrize(("update", "length"), [("adam_step", 1), ("rescale", 16)])
def test_a_period_with_an_update_is_a_step_whatever_repeats_every_sixteenth(
    update: str, length: int
) -> None:
    """The density grid of a NeRF is updated every 16 steps."""
    made = MadeTrace()
    step = [*BLOCK * 4, update]
    names = (step * 16 + [f"density{i}" for i in range(16)]) * 10
    launch(made, names)
    assert len(periods(made)) in (160 // length - 1, 160 // length)


@pytest.mark.slow
@pytest.mark.parametrize(
    "update",
    [
        "multi_tensor_apply_kernel<FusedOptimizerTensorListMetadata, FusedAdamMathFunctor>",
        "multi_tensor_apply_kernel<TensorListMetadata, BinaryOpListAlphaFunctor>",
    ],
)
@pytest.mark.parametrize("accumulated", [2, 3, 8])
def test_micro_batches_are_parts_of_a_step_however_small_the_update(
    update: str, accumulated: int
) -> None:
    """The update is one of 81 to 321 kernels, below the gain that a coarser cut needs."""
    made = MadeTrace()
    launched = launch(made, (MICRO_BATCH * accumulated + [update]) * 6)
    rows = periods(made)
    assert len(rows) in (5, 6)
    assert {b["start_ns"] - a["start_ns"] for a, b in pairwise(rows)} == {
        STEP * (40 * accumulated + 1)
    }
    assert rows[0]["start_ns"] in launched


@pytest.mark.slow
def test_copies_of_fsdp_are_no_updates() -> None:
    """Every second step copies, and by their names the copies could be updates."""
    made = MadeTrace()
    launch(made, (MICRO_BATCH * 2 + ["multi_tensor_apply_kernel<CopyFunctor>"]) * 6)
    assert len(periods(made)) in (11, 12)


@pytest.mark.slow
def test_kernels_launched_in_a_step_of_the_optimizer_are_updates() -> None:
    made = MadeTrace()
    launched = launch(made, (MICRO_BATCH * 4 + ["elementwise"]) * 6)
    for start in launched[160::161]:
        call(made, start - 2, start + 5, "Optimizer.step#SGD.step", "python")
    assert len(periods(made)) in (5, 6)


@pytest.mark.slow
def test_layers_updated_in_the_backward_pass_are_no_steps() -> None:
    made = MadeTrace()
    backward = ["gemm_bwd", "attention_bwd", "fused_adam"]
    step = ["embed", *BLOCK * 12, "loss", *backward * 12]
    launched = launch(made, step * 6)
    assert starts(made) == launched[:: len(step)]


# the last period


@pytest.mark.slow
def test_five_updates_are_four_periods() -> None:
    """The trace ends with the fifth update; what precedes the first is no whole step."""
    made = MadeTrace()
    at, updates = 0, []
    for took in (500, 100, 900, 1000, 1100):
        for name in ("zero", *BLOCK):
            at += STEP
            made.launch(at, at + 5, at + 13, name)
        at += took
        updates.append(at)
        made.launch(at, at + 5, at + 13, "sgd")
    rows = relation(made, "iteration")
    whole = [row for row in rows if row["is_whole"]]
    assert [row["period_ns"] for row in whole] == [b - a for a, b in pairwise(updates)]
