"""What a change gains: the interval, its limits, the change to try first, and four known programs.

Times are those of `made_loop`: 12 steps, each a copy of 0.3 ms and kernels, then a synchronization.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tbd_trace
from fast import examples
from made_kineto import PID, document, event, kernel, launch, write
from made_loop import MS, PAUSE, Loop, programs_of, together
from made_trace import MadeTrace
from tbd_trace.query import prepare
from tbd_trace.why.changes import CHANGES, WITH_ARGUMENT, factors, parse_change, parts
from tbd_trace.why.diagnosis import Diagnosis
from tbd_trace.why.effects import HOST_CHANGES
from tbd_trace.why.predictions import predicted
from tbd_trace.why.processes import INPUTS, diagnoses
from tbd_trace.why.program import Program
from tbd_trace.why.ranking import Cause, recommended
from tbd_trace.why.screen import sentences
from tbd_trace.why.stalls import stalls
from tbd_trace.why.whatif import Prediction, Simulator

US = 1_000
GEMM = "ampere_sgemm_128x64_tn"
HALF = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64"
ADAM = "void multi_tensor_apply_kernel<TensorListMetadata<4>, FusedAdamMathFunctor<float, 4> >"
ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<4, CUDAFunctor_add<float> >"
NORMALIZATION = "void at::native::vectorized_layer_norm_kernel<float, float>"
FLASH = "void flash_{}_kernel<Flash_{}_kernel_traits<128, 64, 128, 8> >(Flash_{}_params)"
REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
WORKERS = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
NO_WORKERS = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
LOADS = dict.fromkeys(range(12), 20 * MS)


def program(made: MadeTrace) -> Program:
    (found,) = programs_of(made)
    return found


def of(loop: Loop) -> Program:
    return program(loop.run())


def predict(found: Program, *changes: str) -> Prediction:
    return Simulator(found).predict([parse_change(change) for change in changes])


def mean_ns(loop: Loop) -> float:
    """Return the mean step of a loop."""
    loop.run()
    return loop.mean_ns


def diagnosis_of(made: MadeTrace, *, trains: bool = False) -> Diagnosis:
    with made.connect() as database:
        database.set(assume_training=trains)
        prepare(database.connection, INPUTS)
        (found,) = diagnoses(database.connection)
        return found


def one_cause(found: Diagnosis, cause: str) -> Cause:
    (one,) = (each for each in found.causes if each.cause == cause)
    return one


def in_each_step(launch_: int, ns: int) -> dict[tuple[int, int], int]:
    """Return a stall of each step before the same launch."""
    return {(step, launch_): ns for step in range(12)}


# stalls of each step


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pause_ns", "others_ns", "is_stall"),
    [
        # The usual pause of the thread is 6 us.
        (2_100 * US, 0, True),
        (1_900 * US, 0, False),
        # The others are 60 us: 50 times as much is 3 ms.
        (2_900 * US, 54 * US, False),
        (3_100 * US, 54 * US, True),
    ],
)
def test_long_pauses_of_each_step_are_stalls(pause_ns: int, others_ns: int, is_stall: bool) -> None:
    usual = {(step, place): others_ns for step in range(12) for place in range(7)}
    found = stalls(of(Loop(stalls=usual | in_each_step(3, pause_ns - PAUSE))))
    # The last step has no end, and the first is warm-up, though both may have the pause, too.
    assert len(found) >= 10 * is_stall
    assert set(found.values()) == ({PAUSE + others_ns} if is_stall else set())


@pytest.mark.slow
def test_a_pause_of_each_step_is_a_cause_with_its_gain() -> None:
    short = [(GEMM, 1_000)] * 6
    loop = Loop(kernels=short, copy_ns=1_000, stalls=in_each_step(3, 30 * MS))
    one = diagnosis_of(loop.run())
    assert one.change == one.causes[0].cause == "host_stalls"
    assert one.causes[0].ns_per_step == pytest.approx(30 * MS, rel=0.01)
    assert one.causes[0].likely_step_ns == pytest.approx(
        loop.mean_ns - parts()["host_stalls"].likely * 30 * MS, abs=0.01 * 30 * MS
    )


@pytest.mark.slow
@pytest.mark.parametrize(("range_ns", "stalled_ns"), [(5 * MS, 3 * MS), (7 * MS, 0)])
def test_a_wait_for_input_inside_a_pause_is_no_stall(range_ns: int, stalled_ns: int) -> None:
    # A pause of 8 ms, of which the first part is in a range of a loader without workers. What is
    # left of it is a stall from 2 ms on.
    loop = Loop(kernels=[(GEMM, 1_000)] * 6, copy_ns=1_000, stalls=in_each_step(3, 8 * MS))
    made = loop.run()
    pauses = [row for row in made.rows["api_call"] if row["name"] == "cudaLaunchKernel"][2::6]
    for call in pauses:
        begin = call["start_ns"] - 8 * MS
        made.add_range(begin, begin + range_ns, NO_WORKERS)
    found = program(made)
    simulator = Simulator(found)
    assert bool(simulator.stalls) == bool(stalled_ns)
    # The rest of the pause stays after each of the two changes.
    now = simulator.measured_ns
    gain = now - predict(found, "host_stalls").ceiling_ns
    assert gain == pytest.approx(stalled_ns, abs=0.02 * MS)
    gain = now - predict(found, "input").ceiling_ns
    assert gain == pytest.approx(range_ns - 200 * US, abs=0.02 * MS)
    both = predict(found, "input", "host_stalls").ceiling_ns
    assert now - both == pytest.approx(range_ns - 200 * US + stalled_ns, abs=0.02 * MS)


# the interval


@pytest.mark.slow
def test_the_interval_is_two_percent_at_least() -> None:
    # All steps are equal, and the user states the factor: only the replay may err.
    loop = Loop(kernels=[(GEMM, 4 * MS)])
    found = predict(of(loop), "scale=gemm:0.5")
    expected = mean_ns(replace(loop, kernels=[(GEMM, 2 * MS)]))
    assert found.likely_ns == found.ceiling_ns == pytest.approx(expected, rel=0.001)
    assert found.best_ns == pytest.approx(0.98 * expected, rel=0.001)
    assert found.worst_ns == pytest.approx(1.02 * expected, rel=0.001)


@pytest.mark.slow
def test_no_change_has_no_interval() -> None:
    found = of(Loop())
    now = Simulator(found).measured_ns
    for nothing in ("scale=.*:1", "comm=x2", "drop=no such kernel"):
        assert predict(found, nothing) == Prediction(now, now, now, now)


@pytest.mark.slow
def test_steps_that_vary_widen_the_interval_to_ten_percent_at_most() -> None:
    # Every second step loads for 20 ms: the standard error of 11 means is over 10 %.
    loading = dict.fromkeys(range(0, 12, 2), 20 * MS)
    found = predict(of(Loop(loading_ns=loading)), "scale=gemm:0.5")
    assert found.worst_ns == pytest.approx(1.1 * found.likely_ns)
    assert found.best_ns == pytest.approx(0.9 * found.likely_ns)


@pytest.mark.slow
def test_the_parts_of_the_saving_are_those_of_the_table() -> None:
    # 6 ms of 9 ms are loading. Without it, a batch is taken in 0.2 ms.
    loop = Loop(loading_ns=dict.fromkeys(range(12), 6 * MS))
    without = mean_ns(replace(loop, loading_ns=dict.fromkeys(range(12), 200 * US - PAUSE)))
    found = predict(of(loop), "input")
    saved, part = mean_ns(loop) - without, parts()["input"]
    assert found.ceiling_ns == pytest.approx(without, rel=0.01)
    assert found.likely_ns == pytest.approx(mean_ns(loop) - part.likely * saved, rel=0.01)
    assert found.worst_ns == pytest.approx(mean_ns(loop) - part.least * saved, rel=0.01)
    # More than all of it: the GPU's 2.7 ms are the limit.
    assert mean_ns(loop) - part.most * saved < 2.7 * MS
    assert found.best_ns == pytest.approx(2.7 * MS, rel=0.001)


def test_parts_are_in_order() -> None:
    assert set(parts()) <= set(CHANGES)
    for part in parts().values():
        assert 0 < part.least <= part.likely <= part.most


@pytest.mark.slow
def test_the_gpu_is_busy_while_any_operation_runs() -> None:
    # Each step of 10 ms: 2 ms on one stream, from 1 ms on; 3 ms on another one, from 2 ms on. They
    # overlap for 1 ms. Another device works 9 ms less, and does not count.
    made = MadeTrace()
    for step in range(8):
        at = 10 * MS * step
        made.add_range(at, at + 10 * MS, f"step {step}")
        made.launch(at + 900_000, at + MS, at + 3 * MS, GEMM)
        made.launch(at + 950_000, at + 2 * MS, at + 5 * MS, GEMM, stream_id=8)
        made.launch(at + 960_000, at + 6 * MS, at + 7 * MS, GEMM, device_id=1)
    assert Simulator(program(made)).busy_ns == pytest.approx(4 * MS)


TIMES = st.integers(20_000, 3 * MS)
LOOPS = st.builds(
    Loop,
    steps=st.integers(5, 9),
    kernels=st.lists(
        st.tuples(st.sampled_from([GEMM, ELEMENTWISE, REDUCE, HALF]), TIMES), min_size=1, max_size=6
    ),
    copy_ns=TIMES,
    loading_ns=st.dictionaries(st.integers(1, 3), st.integers(0, 9 * MS)),
    stalls=st.dictionaries(st.tuples(st.integers(0, 8), st.integers(1, 6)), TIMES),
    alone_in_sync_ns=st.integers(0, MS),
)
SIMPLE = sorted(set(CHANGES) - WITH_ARGUMENT)


@pytest.mark.slow
@settings(max_examples=examples(6))
@given(st.lists(LOOPS, min_size=5, max_size=5))
def test_intervals_are_in_order_and_hosts_no_faster_than_the_gpu(loops: list[Loop]) -> None:
    for found in together(*loops):
        sim = Simulator(found)
        for name in SIMPLE:
            one = sim.predict([parse_change(name)])
            assert 0 <= one.best_ns <= one.likely_ns <= one.worst_ns, name
            assert one.worst_ns >= 1.02 * one.likely_ns * (1 - 1e-9), name
            if name in HOST_CHANGES:
                assert one.best_ns >= sim.busy_ns, name
            else:
                assert one.best_ns <= 0.98 * one.likely_ns * (1 + 1e-9), name


# batches of loader workers


def loading(name: str) -> Program:
    """Return a loop with 20 ms in a range of a loader before each copy."""
    loop = Loop(loading_ns=LOADS)
    made = loop.run()
    for begin, _ in loop.marked:
        made.add_range(begin, begin + 20 * MS, name)
    return program(made)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "gains_ms"), [(WORKERS, 1.2 / 12), (NO_WORKERS, 1.2)])
def test_a_faster_gpu_waits_longer_for_loader_workers(name: str, gains_ms: float) -> None:
    # Kernels of 2.4 ms take half as long. Workers load meanwhile, the launching thread does not.
    # After the last of 12 steps no batch is awaited, so that this step gains.
    found = loading(name)
    assert bool(found.arrivals) == (name == WORKERS)
    now = Simulator(found).measured_ns
    then = predict(found, "scale=gemm:0.5").likely_ns
    assert now - then == pytest.approx(gains_ms * MS, abs=0.02 * MS)


@pytest.mark.slow
@pytest.mark.parametrize("name", [WORKERS, NO_WORKERS])
def test_without_the_wait_a_faster_gpu_gains(name: str) -> None:
    expected = Loop(
        loading_ns=dict.fromkeys(range(12), 200 * US - PAUSE), kernels=[(GEMM, 200_000)] * 6
    )
    found = predict(loading(name), "input", "scale=gemm:0.5").ceiling_ns
    assert found == pytest.approx(mean_ns(expected), rel=0.01)


@pytest.mark.slow
def test_batches_that_are_ready_do_not_arrive() -> None:
    loop = Loop(loading_ns=dict.fromkeys(range(12), 900 * US))
    made = loop.run()
    for begin, _ in loop.marked:
        made.add_range(begin, begin + 900 * US, WORKERS)
    found = program(made)
    assert len(found.input_waits) == 12
    assert found.arrivals == {}


# compile, compress and amp


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "name", "applies_to"),
    [
        ("compile", ELEMENTWISE, "gpu_elementwise"),
        ("compile", NORMALIZATION, "gpu_normalization"),
        ("compress", REDUCE, "communication"),
    ],
)
def test_changes_scale_the_kernels_that_they_are_about(
    change: str, name: str, applies_to: str
) -> None:
    # A step of 30 ms in which the change is about 10 ms; the GPU is idle for less than 0.05 ms.
    found = of(Loop(kernels=[(name, 10 * MS), (HALF, 20 * MS)]))
    now, then = Simulator(found).measured_ns, predict(found, change)
    for case, ns in (("best", then.best_ns), ("likely", then.likely_ns), ("worst", then.worst_ns)):
        expected = now - (1 - factors(change, case, "duration")[applies_to]) * 10 * MS
        if case == "worst":
            expected = max(expected, 1.02 * then.likely_ns)
        assert ns == pytest.approx(expected, abs=50 * US), case


@pytest.mark.slow
def test_compile_leaves_products_and_communication_alone() -> None:
    found = of(Loop(kernels=[(REDUCE, MS), (HALF, MS), (GEMM, MS)]))
    then, now = predict(found, "compile"), Simulator(found).measured_ns
    assert then.likely_ns == then.ceiling_ns == now


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "left"),
    [
        # By the table of factors; attention does not shrink as other products do.
        ("fmha_cutlassF_f32_aligned_64x64_rf_sm80", 0.4),
        (GEMM, 0.38),
        ("cutlass_80_tensorop_s1688gemm_256x128_16x3_nn_align4", 0.57),
        (ELEMENTWISE, 0.72),
        (NORMALIZATION, 0.85),
        (HALF, 1.0),
        (FLASH.format("fwd", "fwd", "fwd"), 1.0),
        (REDUCE, 1.0),
    ],
)
def test_mixed_precision_has_a_factor_for_each_class(name: str, left: float) -> None:
    # 10 ms of the class; a product of 10 ms in FP32, so that there is something to change.
    found = of(Loop(kernels=[(name, 10 * MS), (GEMM, 10 * MS)]))
    then = predict(found, "amp").likely_ns
    gains = (1 - left) * 10 * MS + (1 - 0.38) * 10 * MS
    assert Simulator(found).measured_ns - then == pytest.approx(gains, rel=0.01)


@pytest.mark.slow
def test_casts_may_cost_a_launch_bound_program_more_than_it_gains() -> None:
    # The worst case: the host takes 1.3 times as long.
    loop = Loop(kernels=[(GEMM, 1_000)] * 60, copy_ns=1_000)
    found = of(loop)
    now, then = Simulator(found).measured_ns, predict(found, "amp")
    assert then.likely_ns <= now
    assert then.worst_ns == pytest.approx(1.3 * now, rel=0.03)


@pytest.mark.slow
def test_a_change_of_all_ranks_shortens_the_wait_for_the_slower_one() -> None:
    # Both ranks end the all-reduce together. Products in FP32 take 4 and 6 ms, then 0.38 of it: the
    # first rank waits 0.38 of 2 ms, and both have equal steps again.
    made = MadeTrace()
    for rank, (work, reduce) in enumerate([(4 * MS, 3 * MS), (6 * MS, MS)]):
        Loop(kernels=[(GEMM, work), (REDUCE, reduce)], process=rank + 1).run(made)
    early, late = sorted(programs_of(made), key=lambda one: one.process_id)
    assert {ns for ns, _ in early.rank_waits.values()} == {2 * MS}
    assert late.rank_waits == {}
    for one in (early, late):
        gain = Simulator(one).measured_ns - predict(one, "amp").likely_ns
        assert gain == pytest.approx(0.62 * 6 * MS, rel=0.01)


# the change to try first


def caused(cause: str, likely: float | None, *, best: float = 1.0, share: float = 10.0) -> Cause:
    return Cause(cause, cause, share, 1.0, "", "high", best, likely, likely, "advice")


def test_the_likely_gain_decides_and_not_the_largest() -> None:
    first, second = caused("host", 90.0, best=10.0), caused("copies", 80.0, best=70.0)
    assert recommended([first, second], 100.0) is second
    # The gain of one that is known goes before one that is not.
    assert recommended([caused("host", None, share=60), second], 100.0) is second


def test_without_a_gain_the_largest_cause_with_advice_is_first() -> None:
    none = replace(caused("gpu_other", None, share=50), advice=None)
    assert (
        recommended([none, caused("host", None, share=20), caused("copies", None)], 100.0)
        is not None
    )
    assert recommended([none, caused("host", None, share=19.9)], 100.0) is None
    assert recommended([caused("warm_up", 10.0)], 100.0) is None
    assert recommended([], 100.0) is None


@pytest.mark.slow
@pytest.mark.parametrize(("share", "is_advised"), [(0.10, False), (0.14, True)])
def test_no_advice_for_less_than_three_percent(share: float, is_advised: bool) -> None:
    # Fused kernels likely take 0.75 of their time: 10 % of the step save 2.5 %, 14 % save 3.5 %.
    total = 100 * MS
    fused, product = round(share * total), round((1 - share) * total)
    loop = Loop(kernels=[(ELEMENTWISE, fused), (HALF, product)], copy_ns=1_000)
    one = diagnosis_of(loop.run())
    assert one_cause(one, "gpu_elementwise").likely_step_ns is not None
    assert (one.try_first is not None) == (one.change is not None) == is_advised
    if one.try_first is None:
        assert not any(cause.advice for cause in one.causes)
        return
    first = one.try_first
    assert first.best is not None
    assert first.likely is not None
    assert first.worst is not None
    assert (first.change, first.cause, first.unit) == ("compile", "gpu_elementwise", "ns")
    assert first.now == one.judged_step_ns == pytest.approx(loop.mean_ns, rel=0.001)
    assert first.likely == pytest.approx(loop.mean_ns - 0.25 * fused, rel=0.001)
    assert first.best < first.likely < first.worst
    assert "torch.compile" in first.advice


# Programs with a known answer, after threads of users; `t` is the start of a step of some ms.


@pytest.mark.slow
def test_nothing_is_left_to_advise_where_flash_attention_fills_the_gpu() -> None:
    # 12 steps of 10 ms, the GPU 99 % busy: FlashAttention 6 ms, products in BF16 3.5 ms, AdamW.
    made = MadeTrace()
    for step in range(12):
        t = 10 * MS * step
        made.add_range(t, t + 10 * MS, f"step {step}")
        now = t + 50 * US
        for number, (name, us) in enumerate([
            (FLASH.format("fwd", "fwd", "fwd"), 2_000), (HALF, 1_500),
            (FLASH.format("bwd_dq_dk_dv_loop_seqk_parallel", "bwd", "bwd"), 4_000), (HALF, 2_000),
            (ADAM, 400),
        ]):  # fmt: skip
            launched = max(now - 300 * US, t + 20 * US)
            thread = 2 if number in (2, 3) else 1  # the backward pass has its own
            made.launch(launched, now, now + us * US, name, took=5 * US, thread_id=thread)
            now += us * US
    one = diagnosis_of(made, trains=True)
    assert one.steps > 0
    assert one_cause(one, "gpu_attention").share_pct == pytest.approx(60, abs=0.5)
    assert one_cause(one, "gpu_attention").advice is None
    assert one.change is None
    assert one.try_first is None
    assert "FlashAttention" not in "".join(cause.advice or "" for cause in one.causes)


@pytest.mark.slow
@pytest.mark.usefixtures("sample_cache")
def test_lightning_names_its_loader(tmp_path: Path) -> None:
    # 10 batches of 10 ms, of which the first 1.5 ms are in the loader while the GPU is idle.
    events, number = [], 0

    def mark(name: str, ts: float, dur: float) -> None:
        events.append(event("user_annotation", name, ts, dur))

    def launched(name: str, ts: float, begin: float, dur: float, tid: int = PID) -> None:
        nonlocal number
        number += 1
        events.append(launch(ts, number, tid=tid))
        events.append(kernel(begin, dur, number, name))

    for batch in range(10):
        t = 1_000 + 10_000 * batch
        mark("[pl][profile][_TrainingEpochLoop].train_dataloader_next", t + 5, 1_500)
        mark("[pl][profile]run_training_batch", t + 1_600, 8_300)
        mark("[pl][profile][Strategy]SingleDeviceStrategy.training_step", t + 1_640, 700)
        for i in range(3):
            launched(HALF, t + 1_700 + 20 * i, t + 2_000 + 1_500 * i, 1_500)
        mark("[pl][profile][Strategy]SingleDeviceStrategy.backward", t + 2_400, 900)
        for i in range(2):
            launched(HALF, t + 2_500 + 20 * i, t + 6_500 + 1_000 * i, 1_000, tid=PID + 1)
        mark("[pl][profile][LightningModule]Net.optimizer_step", t + 3_400, 6_000)
        launched(ADAM, t + 3_500, t + 8_600, 300)
    path = write(tmp_path / "lightning.json", document(events))
    one = tbd_trace.open(path).why().slowest
    assert one.steps in (9, 10)
    wait = one_cause(one, "input_pipeline")
    assert wait.share_pct == pytest.approx(15, abs=1)
    assert "DataLoader range" in wait.evidence


GATHER, SCATTER = (f"ncclDevKernel_{name}_RING_LL" for name in ("AllGather", "ReduceScatter_Sum"))


def sharded(*, runs_ahead: bool) -> MadeTrace:
    """Return 12 steps of 100 ms of a sharded model on slow links.

    Ten rounds each: parameters are gathered in 3 ms, two products take 3 ms, and gradients are
    scattered in 3.5 ms, on streams of their own. AdamW ends after 97.5 ms.

    Args:
        runs_ahead: True if the host launches all in the first 4 ms of a step.
    """
    made = MadeTrace()
    # Name, duration, stream, thread, and how long before its start the operation is launched.
    round_ = [(GATHER, 3_000, 24, 1, 1_500), (HALF, 1_500, 7, 1, 3_000),
              (HALF, 1_500, 7, 2, 3_100), (SCATTER, 3_500, 28, 2, 3_100)]  # fmt: skip
    for step in range(12):
        t = 100 * MS * step
        made.add_range(t, t + 100 * MS, f"step {step}")
        now, early = t + 2 * MS, t + 200 * US
        for name, us, stream, thread, before in [*round_ * 10, (ADAM, 500, 7, 1, 2_000)]:
            at = early if runs_ahead else now - before * US
            end = now + us * US
            made.launch(at, now, end, name, took=5 * US, stream_id=stream, thread_id=thread)
            now, early = end, early + 75 * US
        if runs_ahead:
            made.add_call(early, now + 5 * US, "cudaDeviceSynchronize")
    return made


@pytest.mark.slow
def test_slow_links_are_to_be_improved_first() -> None:
    one = diagnosis_of(sharded(runs_ahead=False), trains=True)
    assert one_cause(one, "communication").share_pct == pytest.approx(65, abs=1)
    assert one.try_first is not None
    assert one.change == one.try_first.cause == "communication"
    # In a step of 100 ms, 2 + 2.5 ms are idle. Launching less cannot gain more.
    assert one.judged_step_ns == pytest.approx(100 * MS, rel=0.01)
    best_ns = one_cause(one, "host").best_step_ns
    assert best_ns is not None
    assert best_ns >= 95.5 * MS * 0.999


@pytest.mark.slow
def test_the_replay_knows_streams_that_wait_for_each_other() -> None:
    # Nothing but the times shows that each operation waits for one of another stream.
    one = diagnosis_of(sharded(runs_ahead=True), trains=True)
    assert one.replay_error_pct is not None
    assert abs(one.replay_error_pct) < 5
    assert one.change == "communication"


@pytest.mark.slow
def test_a_cause_that_the_first_change_shortens_has_a_remedy() -> None:
    # A launch-bound loop of short kernels: a graph removes most of the launch latency, too.
    kernels = [(HALF, 3_000)] * 40
    loop = Loop(kernels=kernels, copy_ns=1_000, late_ns={})
    one = diagnosis_of(loop.run())
    assert one.try_first is not None
    assert one.try_first.change == "graph"
    assert one_cause(one, "launch_latency").share_pct > 20
    assert "launch latency" not in dict(sentences(one)).get("No remedy", "")


@pytest.mark.parametrize(("likely", "first"), [(75.0, "input_pipeline"), (80.0, "host")])
def test_a_change_that_saves_almost_half_as_much_comes_before_graphs(
    likely: float, first: str
) -> None:
    graph = replace(caused("host", 45.0), remedy="graph")
    input_ = replace(caused("input_pipeline", likely), remedy="input")
    found = recommended([graph, input_], 100.0)
    assert found is not None
    assert found.cause == first


def test_time_that_nothing_explains_is_not_saved_by_changes_of_the_host() -> None:
    loop = Loop(late_ns={(step, 3): 5 * MS for step in range(12)})
    found = Simulator(of(loop))
    then = found.predict([parse_change("graph")])
    assert then.best_ns >= found.busy_ns + 4.9 * MS


# several changes together


@pytest.mark.slow
@pytest.mark.parametrize("second", ["amp", "compile", "fused_optimizer", "graph"])
@pytest.mark.parametrize("first", ["no_alloc", "input", "host_stalls"])
def test_a_change_without_effect_adds_no_gain(first: str, second: str) -> None:
    # Steps of 20 ms of loading and 0.5 ms of work that none of the second changes shortens much.
    found = of(Loop(loading_ns=LOADS, kernels=[(HALF, 500 * US)]))
    alone, both = predict(found, first), predict(found, first, second)
    assert both.likely_ns == pytest.approx(alone.likely_ns, rel=0.03)
    assert both == predict(found, second, first)


@pytest.mark.slow
def test_together_no_changes_are_faster_than_the_gpu() -> None:
    found = of(Loop(loading_ns=LOADS, kernels=[(GEMM, 500 * US)] * 4))
    sim = Simulator(found)
    changes = [parse_change(name) for name in ("input", "no_alloc", "amp")]
    then = sim.predict(changes)
    busy_ns = sim.after(changes).busy_ns
    assert then.best_ns >= 0.9 * busy_ns
    assert busy_ns <= then.likely_ns <= then.worst_ns


# communication


def reducing(*times_ns: int, dtype: str = "Float", mb: int | None = 1) -> Program:
    """Return a loop with all-reduces in each step, of recorded type and size."""
    made = Loop(kernels=[(GEMM, MS), *((REDUCE, ns) for ns in times_ns)]).run()
    for row in made.rows["kernel"]:
        if row["name"] == REDUCE:
            made.add(
                "collective_record",
                **{"source": "kernel", "kernel_id": row["kernel_id"], "kind": "all_reduce"},
                **{"input_elements": mb and mb * 250_000, "output_elements": mb and mb * 250_000},
                **{"dtype": dtype, "process_id": 1, "record_id": made.next_id()},
            )
    return program(made)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["Half", "BFloat16"])
def test_gradients_of_two_bytes_are_not_compressed_again(dtype: str) -> None:
    assert predict(reducing(MS), "compress").likely_ns < 2.5 * MS
    found = reducing(MS, dtype=dtype)
    assert predict(found, "compress").likely_ns == Simulator(found).measured_ns


def test_the_precision_of_gradients_is_not_that_of_products() -> None:
    # Products of 1 ms in FP32, beside an all-reduce of 40 ms in BF16.
    assert reducing(40 * MS, dtype="BFloat16").gains_by_amp


@pytest.mark.slow
def test_at_least_one_collective_remains_in_each_step() -> None:
    # Of four, of 1 MB or unknown size, one remains: an eighth would be half of one.
    for mb in (1, None):
        found = reducing(*[MS] * 4, mb=mb)
        latency = factors("bucket", "likely", "latency")["collective"] * MS
        gain = Simulator(found).measured_ns - predict(found, "bucket").likely_ns
        assert gain == pytest.approx(parts()["bucket"].likely * 4 * 0.75 * latency, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize(("times_ns", "mb"), [([MS], 1), ([MS, MS], 40)])
def test_one_collective_and_large_ones_need_no_larger_buckets(times_ns: list[int], mb: int) -> None:
    found = reducing(*times_ns, mb=mb)
    assert predict(found, "bucket").likely_ns == Simulator(found).measured_ns


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "note"),
    [
        ("compress", "the gradients are in FP16 or BF16 already"),
        ("drop=nosuchkernel", "no kernel matches nosuchkernel"),
        ("scale=no[a-z]*:2", "no kernel matches no[a-z]*"),
        ("scale=gemm:2", None),
        ("bucket", None),
    ],
)
def test_changes_about_nothing_say_so(change: str, note: str | None) -> None:
    sim = Simulator(reducing(MS, MS, dtype="Half"))
    found = predicted(sim, [parse_change(change)], None)
    assert found.notes[:-1] == ([note] if note else [])
    if change == "bucket":
        alone = predicted(Simulator(of(Loop())), [parse_change(change)], None)
        assert alone.notes[0] == "no communication between GPUs was found"


@pytest.mark.slow
@pytest.mark.parametrize(("world_size", "is_said"), [(8, True), (1, False)])
def test_waits_for_ranks_that_were_not_read_are_not_known(world_size: int, is_said: bool) -> None:
    made = Loop(kernels=[(GEMM, MS), (REDUCE, MS)]).run()
    made.add("job_rank", rank=0, world_size=world_size)
    with made.connect() as database:
        prepare(database.connection, INPUTS)
        (one,) = diagnoses(database.connection)
    said = [text for text in one.not_known if "slower ranks: 1 of 8 ranks were read" in text]
    assert len(said) == is_said
