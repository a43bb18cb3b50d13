"""What the replay reads: precision of kernels, usual delays, full queues, waits for input."""

from __future__ import annotations

import csv
import re
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpus import ROOT
from fast import examples
from made_loop import MS, Loop
from made_trace import MadeTrace, relation

US = 1_000
PRECISIONS = {"half", "tf32", "fp32"}
PRODUCTS = {"CONV", "GEMM", "RNN", "mixture of experts"}


# kernel_group: precision by data/kernel_precisions.csv


def table() -> list[dict[str, str]]:
    with (ROOT / "data" / "kernel_precisions.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def named(*names: str) -> dict[str, str | None]:
    """Return the precision of each kernel."""
    made = MadeTrace()
    for number, name in enumerate(names):
        made.add_kernel(10 * number, 10 * number + 5, name)
    return {row["name"]: row["precision"] for row in relation(made, "kernel_group")}


def winner(name: str) -> dict[str, str] | None:
    """Return the row of the table that decides, by Python's regular expressions."""
    found = [row for row in table() if re.search(row["pattern"], name)]
    return max(found, key=lambda row: int(row["priority"]), default=None)


def test_priorities_and_patterns_are_unique() -> None:
    for column in ("priority", "pattern"):
        counts = Counter(row[column] for row in table())
        assert [value for value, count in counts.items() if count > 1] == []


def test_each_row_has_a_known_precision_and_a_reason() -> None:
    assert {row["precision"] for row in table()} == PRECISIONS
    assert all(row["comment"] for row in table())


def test_every_row_wins_its_example() -> None:
    found = named(*(row["example"] for row in table()))
    for row in table():
        assert winner(row["example"]) == row
        assert found[row["example"]] == row["precision"], row["pattern"]


FLASH = "void {}flash_{}_kernel<Flash_{}_kernel_traits<128, 64, 128, 8> >(Flash_{}_params)"


@pytest.mark.parametrize(
    ("name", "precision"),
    [
        # FlashAttention has no kernel in single precision; the names of some do not show it.
        (FLASH.format("", "fwd", "fwd", "fwd"), "half"),
        (FLASH.format("pytorch_flash::", "bwd_dq_dk_dv_loop_seqk_parallel", "bwd", "bwd"), "half"),
        # Memory-efficient attention of PyTorch has both.
        ("fmha_cutlassB_f32_aligned_64x64_k64_sm80", "fp32"),
        ("fmha_cutlassF_bf16_aligned_64x128_rf_sm80", "half"),
        # The instruction m16n8k8 has TF32 operands, unless the name says another type.
        ("cutlass_80_tensorop_s1688gemm_256x128_16x3_nn_align4", "tf32"),
        ("ampere_fp16_s1688gemm_fp16_64x128_sliced1x2_ldg8_f2f_nn", "half"),
        ("cutlass_75_tensorop_h1688gemm_128x128_nt_align8", "half"),
        ("sm80_xmma_dgrad_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc", "tf32"),
        ("volta_scudnn_128x64_relu_interior_nn_v1", "fp32"),
        # Memory-bound kernels have no precision, whatever their name says.
        ("void vectorized_elementwise_kernel<4, CUDAFunctor_add<c10::Half> >", None),
        ("void softmax_warp_forward<float, float, float, 8>", None),
    ],
)
def test_precision_of_a_kernel(name: str, precision: str | None) -> None:
    assert named(name) == {name: precision}


PIECES = st.sampled_from([
    "gemm", "sgemm_128x64", "_s1688", "_h884", "_s16816", "tensorop", "_tf32f32", "_bf16", "_fp16",
    "flash_fwd_kernel", "fmha_cutlassF_f32", "fprop", "_e4m3", "elementwise", "_nn", "::",
])  # fmt: skip


@pytest.mark.slow
@settings(max_examples=examples(20))
@given(st.lists(st.lists(PIECES, min_size=1, max_size=4).map("".join), min_size=20, unique=True))
def test_the_row_of_highest_priority_decides(names: list[str]) -> None:
    made = MadeTrace()
    for number, name in enumerate(names):
        made.add_kernel(10 * number, 10 * number + 5, name)
    classes = {row["name"]: row for row in relation(made, "kernel_class")}
    for name, precision in named(*names).items():
        row, one = winner(name), classes[name]
        expected = row and row["precision"]
        if one["class"] in PRODUCTS and row is None:
            # Most products on tensor cores are in half precision.
            expected = {True: "half", False: "fp32", None: None}[one["tensor_core"]]
        elif one["class"] not in {*PRODUCTS, "attention"}:
            expected = None
        assert precision == expected, name


# gpu_chain: the usual delays, and operations that await another stream


def chain(made: MadeTrace) -> list[dict[str, Any]]:
    """Return the operations in the order of their positions."""
    return sorted(relation(made, "gpu_chain"), key=lambda row: row["position"])


def test_waits_for_another_stream_are_not_the_usual_gap() -> None:
    # Two streams take turns: a collective of 3 ms, then two kernels of 1 ms. All were launched long
    # before. Each stream waits 5 us after the other one; a kernel follows its neighbour after 2 us.
    made, now = MadeTrace(), 100_000
    for turn in range(6):
        at = 1_000 * turn
        collective = now + 5 * US
        first = collective + 3 * MS + 5 * US
        second = first + MS + 2 * US
        now = second + MS
        made.launch(at, collective, collective + 3 * MS, "nccl", stream_id=24)
        made.launch(at + 10, first, first + MS, "gemm")
        made.launch(at + 20, second, now, "gemm")
    found = chain(made)
    assert {row["stream_gap_ns"] for row in found} == {2 * US}
    # Rows 1, 4, 7 … are collectives; each awaits the kernel before it. The kernel after it awaits
    # it, and the second kernel only follows.
    awaited = [row["awaited_position"] for row in found[3:]]
    assert awaited == [each for turn in range(1, 6) for each in (3 * turn, 3 * turn + 1, None)]
    assert [row["lag_ns"] for row in found[3:]] == 5 * [5 * US, 5 * US, 0]


def test_waits_for_another_stream_are_not_the_usual_lag() -> None:
    # Every second kernel is launched while another stream works, and begins 5 us after that. Of
    # the seven launches, three find an idle device: these begin after 9 us.
    made = MadeTrace()
    for turn in range(3):
        at = 10 * MS * turn
        made.launch(at, at + 9 * US, at + 3 * MS, "before", stream_id=7)
        for stream in (8, 9):
            awaits = at + 3 * MS + 5 * US
            made.launch(at + MS, awaits, awaits + MS, "after", stream_id=stream)
    found = chain(made)
    assert {row["launch_lag_ns"] for row in found} == {9 * US}
    after = [row for row in found if row["name"] == "after"]
    before = [row["position"] for row in found if row["name"] == "before"]
    assert [row["awaited_position"] for row in after] == [each for each in before for _ in "89"]
    assert {row["lag_ns"] for row in after} == {5 * US}


def test_no_device_needs_long_to_begin_an_operation() -> None:
    # Nothing explains why the kernel begins 5 ms after its launch: 0.1 ms are usual at most.
    made = MadeTrace()
    made.launch(0, 5 * MS, 6 * MS)
    (row,) = chain(made)
    assert (row["launch_lag_ns"], row["lag_ns"]) == (100 * US, 5 * MS - 100 * US)


def waits_for_event(late_ns: int, *, is_recorded: bool = True) -> dict[str, Any]:
    """Return the operation of a stream that waits for an event of another one.

    The event is recorded behind a kernel of 1 ms, before another one of 4 ms. The operation starts
    ``late_ns`` after both the first kernel and its own neighbour of 1.5 ms have ended.
    """
    made = MadeTrace()
    made.launch(0, 10 * US, 10 * US + MS, "awaited", stream_id=8)
    record = made.next_id()
    made.add_call(2 * US, 3 * US, "cudaEventRecord", correlation_id=record)
    made.launch(4 * US, 12 * US + MS, 12 * US + 5 * MS, "later", stream_id=8)
    made.launch(6 * US, 16 * US, 16 * US + MS * 3 // 2, "neighbour")
    wait = made.next_id()
    made.add_call(8 * US, 9 * US, "cudaStreamWaitEvent", correlation_id=wait)
    if is_recorded:
        number = made.next_id()
        made.add(
            "synchronization",
            **{"synchronization_id": number, "start_ns": 8 * US, "end_ns": 9 * US},
            **{"process_id": 1, "device_id": 0, "stream_id": 7, "correlation_id": wait},
            sync_type="stream wait event",
        )
        made.add(
            "event_wait",
            **{"synchronization_id": number, "event_stream_id": 8},
            record_correlation_id=record,
        )
    start = 16 * US + MS * 3 // 2 + late_ns
    made.launch(10 * US, start, start + MS, "waits")
    found = chain(made)
    (row,) = [row for row in found if row["name"] == "waits"]
    names = {row["position"]: row["name"] for row in found}
    return row | {"awaited": names.get(row["awaited_position"])}


def test_a_stream_waits_for_the_operation_before_a_recorded_event() -> None:
    row = waits_for_event(2 * US)
    # The neighbour ended later, so that nothing shows the lag behind the event.
    assert (row["awaited"], row["lag_ns"]) == ("awaited", row["stream_gap_ns"])
    assert waits_for_event(2 * US, is_recorded=False)["awaited"] is None


def test_an_event_that_explains_no_start_is_not_awaited() -> None:
    row = waits_for_event(500 * US)
    assert row["awaited"] is None
    assert row["lag_ns"] == 500 * US - row["stream_gap_ns"]


def test_the_host_waits_for_the_operation_before_a_recorded_event() -> None:
    made = MadeTrace()
    made.launch(0, 10 * US, 10 * US + MS, "awaited", stream_id=8)
    record, wait = made.next_id(), made.next_id()
    made.add_call(2 * US, 3 * US, "cudaEventRecord", correlation_id=record)
    made.launch(4 * US, 12 * US, 12 * US + MS, "of another stream")
    end = 12 * US + MS + 5 * US
    call = made.add_call(8 * US, end, "cudaEventSynchronize", correlation_id=wait)
    without = relation(made, "host_chain")
    made.add(
        "synchronization",
        **{"synchronization_id": 1, "process_id": 1, "device_id": 0, "correlation_id": wait},
        sync_type="event synchronize",
    )
    made.add("event_wait", synchronization_id=1, event_stream_id=8, record_correlation_id=record)
    names = {row["position"]: row["name"] for row in chain(made)}
    for rows, name in ((without, "of another stream"), (relation(made, "host_chain"), "awaited")):
        (row,) = [row for row in rows if row["api_call_id"] == call]
        assert names[row["awaited_op"]] == name


# host_chain: launches into a full queue


@pytest.mark.slow
@pytest.mark.parametrize(("queued", "waits"), [(500, True), (499, False)])
def test_most_launches_may_wait_for_a_place_in_the_queue(queued: int, waits: bool) -> None:
    # Kernels of 24 us, 1 us apart. The first launches fill the queue, 1 us each. Of the others,
    # each begins 1 us after the one before, and returns 1 us after a kernel has ended.
    made, others = MadeTrace(), 600
    begin = 2 * US * (queued + 1)
    ends = [begin + 25 * US * number + 24 * US for number in range(queued + others)]
    now = 0
    for number, end in enumerate(ends):
        returns = now + US if number < queued else ends[number - queued] + US
        made.launch(now, end - 24 * US, end, took=returns - now)
        now = returns + US
    calls = sorted(relation(made, "host_chain"), key=lambda row: row["position"])
    assert {row["awaited_op"] for row in calls[:queued]} == {None}
    expected = [(number, US) if waits else (None, None) for number in range(1, others + 1)]
    assert [(row["awaited_op"], row["tail_ns"]) for row in calls[queued:]] == expected


# input_wait: the part of a pause inside a range of a loader


LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
PAUSE = (1_000, 10_001_000)  # between the two launches of `paused`


def paused(*ranges: tuple[int, int], text: str = LOADER) -> list[dict[str, Any]]:
    """Return the waits if two launches are 10 ms apart; ranges are in us after the first one."""
    made = MadeTrace()
    begin, at = PAUSE
    made.launch(0, 9_000, 10_000, took=begin)
    made.launch(at, at + 9_000, at + 10_000)
    for start, end in ranges:
        made.add_range(begin + US * start, begin + US * end, text)
    return relation(made, "input_wait")


def test_only_the_part_of_a_pause_inside_a_range_is_a_wait() -> None:
    (row,) = paused((2_000, 6_000))
    assert (row["position"], row["evidence"], row["wait_ns"]) == (2, "DataLoader range", 4 * MS)
    assert (row["start_ns"], row["end_ns"]) == (PAUSE[0] + 2 * MS, PAUSE[0] + 6 * MS)


def test_ranges_that_contain_each_other_count_once() -> None:
    # 2 to 6 ms and 5 to 8 ms are 6 ms together; the range inside the first adds nothing.
    (row,) = paused((2_000, 6_000), (3_000, 4_000), (5_000, 8_000))
    assert row["wait_ns"] == 6 * MS


@pytest.mark.parametrize(("length_us", "waits"), [(20, False), (21, True)])
def test_waits_of_twenty_microseconds_are_usual_pauses(length_us: int, waits: bool) -> None:
    assert bool(paused((100, 100 + length_us))) == waits


@pytest.mark.slow
@settings(max_examples=examples(20))
@given(st.lists(st.tuples(st.integers(0, 120), st.integers(1, 40)), max_size=6))
def test_a_wait_is_the_union_of_its_ranges(drawn: list[tuple[int, int]]) -> None:
    # In units of 0.1 ms; the pause has 100 of them.
    inside = {unit for start, length in drawn for unit in range(start, start + length)}
    inside &= set(range(100))
    found = paused(*((100 * start, 100 * (start + length)) for start, length in drawn))
    assert [row["wait_ns"] for row in found] == ([100 * US * len(inside)] if inside else [])
    for row in found:
        assert row["start_ns"] == PAUSE[0] + 100 * US * min(inside)
        assert row["end_ns"] == PAUSE[0] + 100 * US * (max(inside) + 1)


@pytest.mark.parametrize(
    ("text", "evidence", "is_loaded_here"),
    [
        (LOADER, "DataLoader range", False),
        ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "DataLoader range", True),
        # Names that do not say whether the loader has workers.
        ("enumerate(DataLoader)", "DataLoader range", None),
        ("[pl][profile][_TrainingEpochLoop].train_dataloader_next", "DataLoader range", None),
        ("IteratorGetNext", "DataLoader range", None),
        ("phase:data", "data range", None),
    ],
)
def test_ranges_that_load(text: str, evidence: str, is_loaded_here: bool | None) -> None:
    (row,) = paused((2_000, 6_000), text=text)
    assert (row["evidence"], row["is_loaded_here"]) == (evidence, is_loaded_here)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Without a range, the pause before the first copy of each step is a wait.
        (None, {"copy of the batch": 12}),
        # A framework marks all of its loading: the other pauses are something else.
        (LOADER, {"DataLoader range": 1}),
        # The user may have marked one part of the loading.
        ("phase:data", {"data range": 1, "copy of the batch": 11}),
    ],
)
def test_ranges_of_a_framework_exclude_the_copy_of_the_batch(
    text: str | None, expected: dict[str, int]
) -> None:
    loop = Loop(loading_ns=dict.fromkeys(range(12), 5 * MS))
    made = loop.run()
    if text is not None:
        begin, _ = loop.marked[4]
        made.add_range(begin, begin + 2 * MS, text)
    assert Counter(row["evidence"] for row in relation(made, "input_wait")) == expected


# compile_wait: ranges of compilers on the launching thread


def compiling(*ranges: tuple[int, int, str], thread: int = 1) -> list[tuple[int, int, int]]:
    """Return the waits, in µs, of a call at 10 ms whose pause is 9.9 ms, beside some ranges."""
    made = MadeTrace()
    made.add_trace()
    made.launch(50 * US, 60 * US, 70 * US, took=50 * US)
    made.launch(10 * MS, 10 * MS + 9 * US, 11 * MS)
    for start, end, text in ranges:
        made.add_range(start * US, end * US, text, thread_id=thread)
    rows = relation(made, "compile_wait")
    return [(row["position"], row["start_ns"] // US, row["end_ns"] // US) for row in rows]


def test_a_pause_in_a_range_of_a_compiler_compiles() -> None:
    assert compiling((1000, 4000, "executor_utils::NVRTC")) == [(2, 1000, 4000)]
    assert compiling((0, 20_000, "FusionKernelRuntime::compileFusionParallel")) == [
        (2, 100, 10_000)
    ]
    both = (1000, 2000, "async_compile.wait"), (3000, 5000, "triton_compile")
    assert compiling(*both) == [(2, 1000, 2000), (2, 3000, 5000)]


def test_of_nested_ranges_the_outer_one_counts() -> None:
    ranges = (1000, 5000, "compile_fx"), (2000, 3000, "nvrtc"), (4000, 5000, "nvrtc")
    assert compiling(*ranges) == [(2, 1000, 5000)]


def test_other_ranges_and_threads_and_short_ranges_compile_nothing() -> None:
    assert compiling((1000, 4000, "Torch-Compiled Region: 0/0"), (4000, 5000, "forward")) == []
    assert compiling((1000, 4000, "nvrtc"), thread=2) == []
    assert compiling((1000, 1090, "nvrtc")) == []
