"""Replay of made training loops, against loops simulated with other times."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from dataclasses import replace
from functools import cache
from statistics import fmean

import pytest

from made_loop import MS, Loop, programs_of, together
from made_trace import MadeTrace, relation
from tbd_trace.errors import CannotAnswerError
from tbd_trace.query import prepare
from tbd_trace.why.base import percentile
from tbd_trace.why.changes import factors, parse_change, parts
from tbd_trace.why.diagnosis import Diagnosis, diagnose
from tbd_trace.why.effects import updates
from tbd_trace.why.evidence import is_certain
from tbd_trace.why.predictions import predicted as predicted_step
from tbd_trace.why.processes import INPUTS, diagnoses
from tbd_trace.why.program import Program
from tbd_trace.why.result import Why
from tbd_trace.why.shares import shares
from tbd_trace.why.thinning import thinned
from tbd_trace.why.whatif import Simulator


def program(made: MadeTrace) -> Program:
    (found,) = programs_of(made)
    return found


GEMM, GEMM_TF32 = "ampere_sgemm_128x64_tn", "sm80_xmma_gemm_tf32f32_tf32f32_f32_tn"
HALF = "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16>"
LOADER = Loop(loading_ns=dict.fromkeys(range(12), 20 * MS))
STALLS = Loop(stalls={(5, 3): 30 * MS, (8, 2): 15 * MS})
LATE = Loop(late_ns={(5, 3): 30 * MS})


def elementwise(factor: float, waits_in: str) -> Loop:
    kernels = [("void elementwise_kernel", round(30_000 * factor))] * 40
    return Loop(kernels=kernels, copy_ns=9_000, waits_in=waits_in)


def with_updates(first: int, others: int) -> Loop:
    update, other = ("addcmul_cuda_kernel", 5_000), ("elementwise_kernel", 5_000)
    step = [*[update] * first, *[other] * others, update, *[other] * 13]
    return Loop(steps=3, kernels=step)


def fused(time_ms: int) -> Loop:
    """Return a loop in which the cause of the other kernels has no advice."""
    kernels = [("elementwise_kernel", time_ms * MS), ("no such name", 90 * MS)]
    return Loop(steps=3, kernels=kernels)


def late_in_each_step(late_ns: int) -> Loop:
    """Return a loop with steps of 2.8 ms, and the time before their last kernel."""
    return Loop(late_ns={(step, 6): late_ns for step in range(12)})


WAITS_IN = ["cudaDeviceSynchronize", "cudaFree"]
UPDATES = [(7, 12), (7, 13), (6, 12)]
SHORT = [(GEMM, 1_000)] * 6
ASKED = [
    *(Loop(), LOADER, STALLS, LATE, Loop(alone_in_sync_ns=4 * MS)),
    *(Loop(steps=3), Loop(steps=4), Loop(copy_ns=3 * MS)),
    *(Loop(kernels=SHORT, copy_ns=1_000),),
    Loop(steps=1, kernels=SHORT, stalls={(0, 3): 5 * MS}),
    Loop(long_launches={(4, 2): 24 * MS}),
    Loop(loading_ns={3: 9 * MS}, stalls={(5, 3): 30 * MS}),
    Loop(loading_ns=dict.fromkeys(range(12), 5 * MS)),
    *(elementwise(1, waits_in) for waits_in in WAITS_IN),
    *(with_updates(*each) for each in UPDATES),
    *(fused(time_ms) for time_ms in (90, 1)),
    *(late_in_each_step(late_ns) for late_ns in (MS // 4, MS)),
    Loop(kernels=[(HALF, MS)] * 4),
    Loop(kernels=[(GEMM, MS), (GEMM_TF32, MS), ("elementwise_kernel", MS)]),
    Loop(kernels=[(GEMM_TF32, 4 * MS), (GEMM, 3 * MS)]),
]


def key(loop: Loop) -> str:
    return repr(replace(loop, trace_id="", begins=[], marked=[]))


@cache
def asked_for() -> dict[str, Program]:
    return dict(zip(map(key, ASKED), together(*deepcopy(ASKED)), strict=True))


def program_of(loop: Loop) -> Program:
    """Return the program of one of the loops ASKED; nothing may be changed in it."""
    return asked_for()[key(loop)]


def diagnosis_of_loop(loop: Loop) -> Diagnosis:
    return diagnose(program_of(loop), "t", None)


def diagnosis_of(made: MadeTrace) -> Diagnosis:
    return diagnose(program(made), "t", None)


def share(one: Diagnosis, cause: str) -> float:
    return sum(each.share_pct for each in one.causes if each.cause == cause)


def ns_per_step(one: Diagnosis, cause: str) -> float:
    return sum(each.ns_per_step or 0 for each in one.causes if each.cause == cause)


def predicted(found: Program, *changes: str) -> float:
    return Simulator(found).predict([parse_change(change) for change in changes]).ceiling_ns


@pytest.mark.slow
def test_a_loader_is_named_with_its_time_and_gain() -> None:
    # 20 ms before each copy; the GPU has finished long before.
    one = diagnosis_of_loop(LOADER)
    assert one.causes[0].cause == one.change == "input_pipeline"
    assert ns_per_step(one, "input_pipeline") == pytest.approx(20 * MS, rel=0.05)
    assert one.causes[0].evidence.startswith("the launching thread waits before the copy")
    without = Loop(loading_ns=dict.fromkeys(range(12), 200_000 - 6_000))
    without.run()
    assert one.causes[0].likely_step_ns == pytest.approx(without.mean_ns, rel=0.01)


@pytest.mark.slow
def test_a_stall_is_named_where_the_host_pauses_longer_than_usual() -> None:
    one = diagnosis_of_loop(STALLS)
    # Kernels of 0.4 ms hide the beginning of a pause.
    assert ns_per_step(one, "host_stalls") * one.steps == pytest.approx(45 * MS, rel=0.05)
    assert share(one, "input_pipeline") == 0
    usual = Loop()
    usual.run()
    assert predicted(program_of(STALLS), "host_stalls") == pytest.approx(usual.mean_ns, rel=0.01)


@pytest.mark.slow
def test_a_graph_is_no_advice_for_a_program_without_steps() -> None:
    repeated = diagnosis_of_loop(Loop(kernels=SHORT, copy_ns=1_000))
    assert any(one.cause == "host" and one.advice for one in repeated.causes)
    made = Loop(steps=1, kernels=SHORT, stalls={(0, 3): 5 * MS}).run()
    made.rows["annotation"] = []
    single = diagnose(program(made), "t", None)
    assert single.steps == 0
    assert share(single, "host") > 90
    assert single.change is None
    assert not any(one.cause == "host" and one.advice for one in single.causes)


@pytest.mark.slow
def test_time_inside_a_synchronization_counts_as_such() -> None:
    one = diagnosis_of_loop(Loop(alone_in_sync_ns=4 * MS))
    assert ns_per_step(one, "synchronization") == pytest.approx(4 * MS, rel=0.05)
    (evidence,) = [each.evidence for each in one.causes if each.cause == "synchronization"]
    assert "cudaDeviceSynchronize" in evidence


@pytest.mark.slow
def test_a_long_launch_is_warm_up() -> None:
    one = diagnosis_of_loop(Loop(long_launches={(4, 2): 24 * MS}))
    assert ns_per_step(one, "warm_up") * one.steps == pytest.approx(24 * MS, rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("waits_in", WAITS_IN)
def test_faster_kernels_gain_until_the_host_limits_the_step(waits_in: str) -> None:
    def ending(factor: float) -> float:
        loop = elementwise(factor, waits_in)
        loop.run()
        return loop.mean_ns

    found = program_of(elementwise(1, waits_in))
    for factor in (0.5, 0.1, 2):
        scaled = predicted(found, f"scale=elementwise:{factor}")
        point = Simulator(found).predict([parse_change(f"scale=elementwise:{factor}")]).likely_ns
        assert point == pytest.approx(ending(factor), rel=0.01)
        assert scaled <= point


@pytest.mark.slow
def test_the_order_of_rows_the_trace_id_and_threads_change_nothing() -> None:
    loop = Loop(loading_ns={3: 9 * MS}, stalls={(5, 3): 30 * MS})
    expected = diagnosis_of_loop(loop)
    made = Loop(**{**vars(loop), "trace_id": "another"}).run()
    for rows in made.rows.values():
        rows.reverse()
    with made.connect() as database:
        database.connection.execute("SET threads = 1")
        prepare(database.connection, INPUTS)
        (found,) = diagnoses(database.connection)
    assert [(c.cause, c.share_pct, c.best_step_ns) for c in found.causes] == [
        (c.cause, c.share_pct, c.best_step_ns) for c in expected.causes
    ]


@pytest.mark.slow
def test_the_slowest_of_several_traces_comes_first() -> None:
    made = Loop().run()
    Loop(loading_ns=dict.fromkeys(range(12), 20 * MS), trace_id="slow").run(made)
    with made.connect() as database:
        prepare(database.connection, INPUTS)
        found = diagnoses(database.connection)
    assert [one.trace_id for one in found] == ["slow", "t"]
    assert found[1].causes == diagnosis_of_loop(Loop()).causes


def ranks_of(*kernels: list[tuple[str, int]], several: bool) -> list[Diagnosis]:
    """Diagnose a process per rank that runs these kernels, in one trace or several of a job."""
    made = MadeTrace()
    for rank, own in enumerate(kernels):
        trace = f"rank {rank}" if several else "t"
        if several:
            made.add_trace(trace, utc_start_ns=10**18)
            made.add("job_rank", trace_id=trace, job="j", rank=rank, world_size=len(kernels))
        Loop(kernels=own, process=rank + 1, trace_id=trace).run(made)
    with made.connect() as database:
        prepare(database.connection, INPUTS)
        return sorted(diagnoses(database.connection), key=lambda one: one.process_id)


@pytest.mark.slow
@pytest.mark.parametrize("several", [False, True], ids=["one trace", "traces of a job"])
def test_the_wait_for_a_slower_rank_is_apart_from_communication(several: bool) -> None:
    # Both ranks end the all-reduce together; the first begins it 2 ms earlier.
    reduce, work = "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "ampere_sgemm_128x64_tn"
    early, late = ranks_of(
        [(work, 4 * MS), (reduce, 3 * MS)], [(work, 6 * MS), (reduce, MS)], several=several
    )
    assert early.step_ns == late.step_ns
    assert ns_per_step(early, "straggler") == pytest.approx(2 * MS)
    assert ns_per_step(early, "communication") == pytest.approx(MS)
    assert ns_per_step(late, "communication") == pytest.approx(MS)
    assert share(late, "straggler") == 0
    (waits,) = (cause for cause in early.causes if cause.cause == "straggler")
    assert waits.evidence.endswith("12 of them for rank 1")
    assert early.judged_step_ns is not None
    part = parts()["straggler"].likely
    assert waits.likely_step_ns == pytest.approx(early.judged_step_ns - part * 2 * MS, rel=0.01)
    (moves,) = (cause for cause in early.causes if cause.cause == "communication")
    left = factors("compress", "likely", "duration")["communication"]
    expected_ns = early.judged_step_ns - (1 - left) * MS
    assert moves.likely_step_ns == pytest.approx(expected_ns, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_few_marked_steps_give_shares_and_gains(steps: int) -> None:
    loop = Loop(steps=steps, loading_ns=dict.fromkeys(range(steps), 5 * MS))
    one = diagnosis_of(loop.run())
    assert one.steps == steps
    assert sum(cause.share_pct for cause in one.causes) == pytest.approx(100)
    (begin, _), (_, end) = loop.marked[0], loop.marked[-1]
    assert one.step_ns == pytest.approx((end - begin) / steps)
    # The loader's wait before the first kernel counts, too.
    causes = ("input_pipeline", "host_stalls", "host")
    idle_ns = sum(ns_per_step(one, cause) for cause in causes)
    assert idle_ns == pytest.approx(5 * MS, rel=0.05)
    assert any(cause.best_step_ns is not None for cause in one.causes)


@pytest.mark.slow
@pytest.mark.parametrize(("time_ms", "change"), [(90, "gpu_elementwise"), (1, None)])
def test_without_a_gain_a_change_is_about_a_large_cause(time_ms: int, change: str | None) -> None:
    assert diagnosis_of_loop(fused(time_ms)).change == change


@pytest.mark.slow
@pytest.mark.parametrize("steps", [1, 2])
def test_the_data_of_a_program_without_steps_are_not_a_batch(steps: int) -> None:
    # The copy is not the first operation, so that the GPU waits.
    made = Loop(steps=steps, loading_ns=dict.fromkeys(range(steps), 20 * MS)).run()
    made.rows["annotation"] = []
    made.add_call(1_000, 2_000, "cudaLaunchKernel", thread_id=1, correlation_id=1)
    made.add_kernel(9_000, 9_100, correlation_id=1)
    one = diagnosis_of(made)
    assert one.steps == share(one, "input_pipeline") == 0
    assert one.causes[0].cause == "host"


@pytest.mark.slow
def test_time_that_no_call_or_operation_explains_is_unknown() -> None:
    one = diagnosis_of_loop(LATE)
    assert ns_per_step(one, "unknown") * one.steps == pytest.approx(30 * MS, rel=0.05)
    unknown = next(cause for cause in one.causes if cause.cause == "unknown")
    assert unknown.evidence.startswith("operations that begin over 1 ms later")
    assert any(text.startswith("what delays operations (1): ") for text in one.not_known)


@pytest.mark.slow
def test_an_operation_that_awaits_the_first_one_has_no_unexplained_delay() -> None:
    made = deepcopy(program_of(LATE))
    (late,) = (op for op in range(len(made.ops.start)) if made.delay_ns(op) > 0)
    assert made.delay_ns(late) == pytest.approx(30 * MS, rel=0.05)
    made.ops.awaited[late] = 0
    assert made.delay_ns(late) == 0


@pytest.mark.slow
@pytest.mark.parametrize(("late_ns", "is_known"), [(MS // 4, True), (MS, False)])
def test_a_replay_that_does_not_explain_the_trace_gives_no_gain(
    late_ns: int, is_known: bool
) -> None:
    found = program_of(late_in_each_step(late_ns))
    one = diagnose(found, "t", None)
    assert any(cause.best_step_ns for cause in one.causes) == is_known
    withheld = [text for text in one.not_known if text.startswith("gains: the replay")]
    assert len(withheld) == (not is_known)
    changes = [parse_change("amp")]
    if is_known:
        assert predicted_step(Simulator(found), changes, None).best_step_ns
        return
    with pytest.raises(CannotAnswerError, match="the replay of the trace errs by -2"):
        predicted_step(Simulator(found), changes, None)


@pytest.mark.slow
def test_steps_that_overtake_each_other_after_a_change_are_not_predicted() -> None:
    # Every second step begins with a short kernel on a stream of its own. If one graph launches
    # all, these kernels run at once, before the steps that precede them.
    made = MadeTrace()
    for step in range(8):
        at = step * MS
        made.add_range(at, at + MS - 10, f"step {step}")
        made.launch(at + 10_000, at + 20_000, at + 30_000, "begin", stream_id=7 + step % 2)
        made.launch(at + 40_000, at + 50_000, at + 800_000, "long")
    found = program(made)
    with pytest.raises(CannotAnswerError, match="first operation of a step would run"):
        predicted(found, "graph")
    causes = diagnose(found, "t", None).causes
    assert [each.best_step_ns for each in causes if each.cause == "host"] == [None]


@pytest.mark.slow
def test_without_launches_the_host_is_unknown() -> None:
    made = Loop(loading_ns=dict.fromkeys(range(12), 20 * MS)).run()
    made.rows["api_call"] = made.rows["api_call"][::9]
    one = diagnosis_of(made)
    assert share(one, "input_pipeline") == share(one, "host") == 0
    assert one.causes[0].cause == "unknown"
    assert any(text.startswith("host causes: launches") for text in one.not_known)


def test_a_synchronization_of_a_stream_waits_for_that_stream() -> None:
    """Two processes use the same correlation ids."""
    made = MadeTrace()
    made.add_trace()
    for process, stream, other in ((1, 7, 8), (2, 8, 7)):
        at = {"process_id": process}
        gpu = at | {"device_id": process - 1}
        made.launch(100, 200, 505, stream_id=other, correlation_id=1, **gpu)
        made.launch(110, 200, 500, stream_id=stream, correlation_id=2, **gpu)
        made.add_call(120, 510, "cudaStreamSynchronize", correlation_id=3, **at)
        made.add("synchronization", synchronization_id=process, start_ns=120, end_ns=510,
            correlation_id=3, stream_id=stream, sync_type="stream synchronize", **at)  # fmt: skip
    calls = relation(made, "host_chain")
    assert [row["tail_ns"] for row in calls if row["kind"] == "sync"] == [10, 10]
    assert {row["tail_ns"] for row in calls if row["kind"] != "sync"} == {None}


@pytest.mark.slow
@pytest.mark.parametrize("is_launched", [True, False])
def test_a_strict_replay_drops_the_lags_of_launched_operations(is_launched: bool) -> None:
    made = Loop(late_ns={(5, 3): 2 * MS}).run()
    late = made.rows["kernel"][5 * 6 + 2]
    if not is_launched:
        late["correlation_id"] = None
    found = program(made)
    replay = Simulator(found).replay
    times = replay.run(replay.measured, is_strict=True)
    op = found.ops.start.index(late["start_ns"])
    lost = found.ops.start[op] - found.ops.end[op - 1] - times.op_start[op] + times.op_end[op - 1]
    assert lost == pytest.approx(2 * MS if is_launched else 0, abs=20_000)


@pytest.mark.slow
@pytest.mark.parametrize("steps", [3, 4, 12])
def test_operations_are_counted_per_step(steps: int) -> None:
    found = program_of(Loop(steps=steps))
    assert len(found.steps) == steps
    said = {cause.cause: cause.evidence for cause in diagnose(found, "t", None).causes}
    assert said["gpu_matmul_no_tensor_core"].startswith("6 kernels per step")
    assert said["copies"].startswith("6 MB per step")


@pytest.mark.slow
def test_copies_from_pinned_memory_are_no_faster_when_pinned() -> None:
    found = program_of(Loop())
    assert predicted(found, "pinned") == Simulator(found).measured_ns


@pytest.mark.slow
def test_half_precision_has_nothing_to_gain_by_amp() -> None:
    found = program_of(Loop(kernels=[(HALF, MS)] * 4))
    assert predicted(found, "amp") == Simulator(found).measured_ns
    assert all(not c.advice for c in diagnose(found, "t", None).causes if "matmul" in c.cause)


@pytest.mark.slow
@pytest.mark.parametrize(("updates_first", "others"), UPDATES)
def test_an_update_has_eight_kernels_and_breaks_of_at_most_twelve_others(
    updates_first: int, others: int
) -> None:
    found = program_of(with_updates(updates_first, others))
    counts = Counter(found.ops.name[op] for op in updates(found))
    expected = {"addcmul_cuda_kernel": 3 * 8, "elementwise_kernel": 3 * 12}
    assert counts == (expected if (updates_first, others) == (7, 12) else {})


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [([], 50, None), ([7], 95, 7.0), ([1, 3], 50, 2.0), (list(range(101)), 95, 95.0)],
)
def test_percentiles(values: list[int], percent: int, expected: float | None) -> None:
    assert percentile(values, percent) == expected


@pytest.mark.slow
def test_other_processes_are_listed_with_their_largest_cause() -> None:
    slow, fast = diagnosis_of_loop(Loop(copy_ns=3 * MS)), diagnosis_of_loop(Loop())
    (other,) = Why([slow, fast]).to_dict()["others"]
    assert other["cause"] == max(fast.causes, key=lambda one: one.share_pct).cause
    assert other["share_pct"] == max(one.share_pct for one in fast.causes)


@pytest.mark.slow
def test_the_likely_step_is_between_the_best_and_the_worst() -> None:
    kernels = [(GEMM, MS), (GEMM_TF32, MS), ("elementwise_kernel", MS)]
    found = Simulator(program_of(Loop(kernels=kernels))).predict([parse_change("amp")])
    assert found.ceiling_ns <= found.best_ns < found.likely_ns < found.worst_ns


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cause", "error", "expected"),
    [
        ("gpu_other", 0.0, True), ("gpu_other", None, False), ("gpu_other", 30.0, False),
        ("gpu_other", -30.0, False), ("unknown", 0.0, False),
    ],
)  # fmt: skip
def test_causes_are_certain_where_the_replay_explains_them(
    cause: str, error: float | None, expected: bool
) -> None:
    assert is_certain(program_of(Loop()), cause, error) is expected


@pytest.mark.slow
def test_amp_follows_the_table_of_factors() -> None:
    found = Simulator(program_of(Loop(kernels=[(GEMM_TF32, 4 * MS), (GEMM, 3 * MS)])))
    now, then = found.measured_ns, found.predict([parse_change("amp")]).likely_ns
    assert now - then == pytest.approx(0.43 * 4 * MS + 0.62 * 3 * MS, rel=0.01)


@pytest.mark.slow
def test_a_long_loop_is_replayed_in_stretches() -> None:
    waits = dict.fromkeys(range(0, 60, 2), 5 * MS)
    found = program(Loop(steps=62, loading_ns=waits, kernels=[("elementwise", 400_000)] * 3).run())
    thin = thinned(found, most=40)
    assert len(thin.steps) == 40
    assert len(thin.calls.start) < 0.75 * len(found.calls.start)
    whole, drawn = Simulator(found), Simulator(thin)
    assert drawn.replayed_ns == pytest.approx(fmean(thin.op_step_ns), rel=0.01)
    for change in ("input", "graph", "scale=elementwise:2"):
        assert predicted(thin, change) == pytest.approx(predicted(found, change), rel=0.05)
    assert drawn.measured_ns == whole.measured_ns
    # The time between stretches has no cause.
    after = drawn.after([parse_change("input")])
    ns_by_cause = shares(after, {})
    assert sum(ns_by_cause.values()) == pytest.approx(sum(after.base.step_ns))
    assert "unknown" not in ns_by_cause
    assert thinned(found) is found
    assert len(thinned(found, most=20).steps) == 20  # one stretch


@pytest.mark.slow
@pytest.mark.parametrize(("change", "loading_ns", "is_noted"), [
    ("input", {}, True),
    ("workers=2:4", {}, True),
    ("input", dict.fromkeys(range(12), 5 * MS), False),
    ("graph", {}, False),
])  # fmt: skip
def test_a_change_of_the_input_needs_a_wait_for_it(
    change: str, loading_ns: dict[int, int], is_noted: bool
) -> None:
    sim = Simulator(program_of(Loop(loading_ns=loading_ns)))
    notes = predicted_step(sim, [parse_change(change)], 1).notes
    assert ("no wait for input was found" in notes) == is_noted


@pytest.mark.slow
def test_graphs_traced_as_a_whole_are_stated() -> None:
    loop = Loop()
    made = loop.run()
    made.add_graph(loop.begins[3] - 9_000, loop.begins[3] - 3_000, process_id=1, device_id=0)
    one = diagnosis_of(made)
    assert any("--cuda-graph-trace=node" in text for text in one.not_known)
    assert share(one, "gpu_other") * one.elapsed_ns == pytest.approx(100 * 6_000)


@pytest.mark.slow
def test_clocks_that_disagree_are_stated() -> None:
    made = Loop().run()
    for row in made.rows["kernel"]:
        row["start_ns"] -= 5 * MS
        row["end_ns"] -= 5 * MS
    one = diagnosis_of(made)
    assert any("operations start before their launch" in text for text in one.not_known)
    assert sum(cause.share_pct for cause in one.causes) == pytest.approx(100)
    assert min(cause.share_pct for cause in one.causes) > 0


@pytest.mark.slow
def test_calls_without_a_duration_do_not_wait_for_themselves() -> None:
    made = Loop().run()
    first = min(row["start_ns"] for row in made.rows["api_call"])
    for at in (first - 50_000, first - 50_000, first + 20_000):
        for thread in (1, 2):
            number = made.next_id()
            made.add_call(at, at, "cudaLaunchKernel", thread_id=thread, correlation_id=900 + number)
            made.add_kernel(at + 9_000, at + 9_100, stream_id=thread, correlation_id=900 + number)
    found = program(made)
    assert all(waited < call for call, waited in enumerate(found.calls.waited))
    assert sum(cause.share_pct for cause in diagnosis_of(made).causes) == pytest.approx(100)


@pytest.mark.parametrize(
    ("name", "cause", "precision"),
    [
        ("ampere_sgemm_128x64_tn", "gpu_matmul_no_tensor_core", "fp32"),
        ("sm80_xmma_gemm_tf32f32_tf32f32_f32_tn", "gpu_matmul_tensor_core", "tf32"),
        ("ampere_fp16_s16816gemm_fp16_128x128_tn", "gpu_matmul_tensor_core", "half"),
        ("nvjet_hsh_128x256", "gpu_matmul_tensor_core", "half"),
        ("triton_mm_kernel_matmul", "gpu_matmul", None),
        ("void at::native::addcmul_cuda_kernel", "gpu_optimizer", None),
        ("void cudnn::ops::nchwToNhwcKernel<float>", "gpu_layout", None),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "communication", None),
        ("no such name", "gpu_other", None),
    ],
)
def test_groups_of_kernels(name: str, cause: str, precision: str | None) -> None:
    made = MadeTrace()
    made.launch(0, 10, 20, name)
    (row,) = relation(made, "kernel_group")
    assert (row["cause"], row["precision"]) == (cause, precision)


@pytest.mark.slow
def test_a_call_of_the_host_during_a_delay_is_named() -> None:
    unknown = next(cause for cause in diagnosis_of_loop(LATE).causes if cause.cause == "unknown")
    assert unknown.evidence.endswith(", while the host is in cudaDeviceSynchronize")


@pytest.mark.slow
def test_compilation_is_named_where_the_launching_thread_waits_for_it() -> None:
    loop = Loop(stalls={(step, 3): 4 * MS for step in range(12)})
    made = loop.run()
    launches = [row for row in made.rows["api_call"] if row["name"] == "cudaLaunchKernel"]
    for row in launches[2::6]:
        made.add_range(row["start_ns"] - 4 * MS, row["start_ns"] - MS, "nvrtc")
    one = diagnosis_of(made)
    # The GPU still works for the first 1.1 ms.
    assert ns_per_step(one, "compilation") == pytest.approx(1.9 * MS, rel=0.05)
    (cause,) = (each for each in one.causes if each.cause == "compilation")
    assert (cause.remedy, cause.likely_step_ns) == (None, None)


@pytest.mark.slow
def test_graphs_are_no_advice_where_graphs_launch_the_kernels() -> None:
    made = Loop(kernels=[("kernel", 5_000)] * 20).run()
    before = diagnosis_of(made)
    assert next(cause for cause in before.causes if cause.cause == "host").remedy == "graph"
    for row in made.rows["api_call"]:
        row["name"] = row["name"].replace("cudaLaunchKernel", "cudaGraphLaunch")
    host = next(cause for cause in diagnosis_of(made).causes if cause.cause == "host")
    assert (host.remedy, host.advice) == (None, None)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "is_advised"), [(3, False), (100, True)])
def test_allocations_at_the_start_are_no_cause_for_a_caching_allocator(
    number: int, is_advised: bool
) -> None:
    made = MadeTrace()
    made.add_trace()
    made.launch(0, 10_000, 20_000)
    for allocation in range(number):
        made.add_call(30_000 + allocation * MS, 20_000 + (allocation + 1) * MS, "cudaMalloc")
    end = 30_000 + number * MS
    made.launch(end, end + 10_000, end + 20_000)
    (cause,) = (each for each in diagnosis_of(made).causes if each.cause == "memory_allocation")
    assert cause.share_pct > 90
    assert (cause.advice is not None) == is_advised


@pytest.mark.slow
def test_kernels_in_a_range_of_the_optimizer_are_the_optimizer_whatever_their_names() -> None:
    loop = Loop()
    made = loop.run()
    launches = [row for row in made.rows["api_call"] if row["name"] == "cudaLaunchKernel"]
    for row in launches[5::6]:
        made.add_range(row["start_ns"] - 1000, row["end_ns"] + 1000, "phase:optimizer")
    found = program(made)
    own = [op for op, cause in enumerate(found.ops.cause) if cause == "gpu_optimizer"]
    assert len(own) == loop.steps
    assert {found.ops.precision[op] for op in own} == {""}
    assert ns_per_step(diagnosis_of(made), "gpu_optimizer") == pytest.approx(400_000, rel=0.01)
