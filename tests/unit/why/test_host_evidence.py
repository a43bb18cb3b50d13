"""Causes of steps without a GPU: made steps with causes worked by hand, and a run of PyTorch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import tbd_trace
from made_job import write_job
from made_kineto import Event, document, event, launch, operator, write
from tbd_trace.cli.main import app
from tbd_trace.why.diagnosis import Cause, Diagnosis

WORKER = 500  # thread of gloo
ENGINE = 600  # thread of the autograd engine
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
SIZES = {"Input Dims": [[8, 4], [4, 2]], "Input type": ["float", "float"]}


def node(name: str, ts: int, dur: int, seq: int) -> Event:
    about = {"Sequence number": seq, "Fwd thread id": 1}
    return operator(f"autograd::engine::evaluate_function: {name}", ts, dur, **about)


def gloo(ts: int, dur: int) -> Event:
    args = {"Input Dims": [[1000]], "Input type": ["float"]}
    return event("user_annotation", "gloo:all_reduce", ts, dur, tid=WORKER, args=args)


def step(number: int) -> list[Event]:
    """A step of 1,000 us: 100 input, 280 forward, 250 backward, 100 gloo, 130 optimizer."""
    at, seq = 1000 * number, 10 * number
    return [
        event("user_annotation", f"ProfilerStep#{number}", at, 1000),
        event("user_annotation", LOADER, at, 100),
        operator("aten::linear", at + 120, 200, **{"Sequence number": seq + 1}, **SIZES),
        operator("aten::addmm", at + 150, 150, **{"Sequence number": seq + 1}, **SIZES),
        operator("aten::relu", at + 330, 70, **{"Sequence number": seq + 2}),
        node("ReluBackward0", at + 450, 50, seq + 2),
        node("AddmmBackward0", at + 510, 190, seq + 1),
        operator("aten::mm", at + 520, 170, **SIZES),
        # The thread waits from 700 to 800; the second collective is hidden under the optimizer.
        gloo(at + 650, 150),
        operator("torch.distributed.ddp.reducer::copy_bucket_to_grad", at + 810, 10),
        event("user_annotation", "Optimizer.step#SGD.step", at + 840, 130),
        operator("aten::add_", at + 850, 110),
        gloo(at + 855, 10),
    ]


def steps(number: int = 3) -> list[Event]:
    return [each for index in range(number) for each in step(index)]


def diagnosis_of(folder: Path, events: list[Event], **header: Any) -> Diagnosis:
    with tbd_trace.open(write(folder / "made.json", document(events, **header))) as traces:
        return traces.why().slowest


def shares(one: Diagnosis) -> dict[str, float]:
    return {cause.cause: round(cause.share_pct, 6) for cause in one.causes}


def cause_of(one: Diagnosis, name: str) -> Cause:
    return next(cause for cause in one.causes if cause.cause == name)


def test_a_step_is_divided_as_worked_by_hand(tmp_path: Path) -> None:
    one = diagnosis_of(tmp_path, steps())
    assert shares(one) == {
        "cpu_forward": 28,
        "cpu_backward": 25,
        "cpu_work": 14,  # 20 + 50 + 40 + 30 us
        "cpu_optimizer": 13,
        "input_pipeline": 10,
        "communication": 10,
    }
    assert (one.trains, one.step_ns, one.steps) == (True, 1_000_000, 3)
    assert cause_of(one, "cpu_forward").ns_per_step == 280_000
    assert cause_of(one, "cpu_forward").evidence == (
        "aten::addmm 15 % (float32), aten::relu 7 %, aten::linear 5 % (float32); operators ran on "
        "1 thread"
    )
    assert cause_of(one, "cpu_backward").evidence == (
        "aten::mm 17 % (float32), ReluBackward0 5 %, AddmmBackward0 2 %"
    )
    assert cause_of(one, "communication").evidence == (
        "the thread waits for gloo: 2 collectives (all_reduce) of 0.008 MB a step"
    )
    assert cause_of(one, "communication").advice is None  # less than 20 %
    assert one.change == "input_pipeline"
    # Only the gain of the loader is known.
    known = [cause.cause for cause in one.causes if cause.likely_step_ns is not None]
    assert known == ["input_pipeline"]


def test_without_a_loader_the_input_is_not_known(tmp_path: Path) -> None:
    one = diagnosis_of(tmp_path, [each for each in steps() if each["name"] != LOADER])
    assert "input_pipeline" not in shares(one)
    assert shares(one)["cpu_work"] == 24
    assert any(line.startswith("waits for input: no range marks") for line in one.not_known)
    assert one.change is None


def test_backward_operators_of_an_engine_thread_count_while_the_caller_waits(
    tmp_path: Path,
) -> None:
    backward = ("Backward0", "aten::mm")
    events = [
        each | {"tid": ENGINE} if each["name"].endswith(backward) else each for each in steps()
    ]
    found = shares(diagnosis_of(tmp_path, events))
    # The pause of 10 us between the two nodes is backward, too.
    assert (found["cpu_backward"], found["communication"]) == (25, 10)
    assert sum(found.values()) == pytest.approx(100)


@pytest.mark.slow
def test_a_thread_that_goes_on_as_gloo_returns_has_waited(tmp_path: Path) -> None:
    # The thread goes on at 810 us, after 110 us. The collective ends less than 1 % of it later; or
    # 20 us later, where only the next pause, of 820 us on, waits for it.
    for late, waited in ((11, 11), (30, 1)):
        events = [
            each | {"dur": each["dur"] + late}
            if each["name"] == "gloo:all_reduce" and each["dur"] == 150
            else each
            for each in steps()
        ]
        found = shares(diagnosis_of(tmp_path, events))
        assert found.get("communication", 0) == waited


def test_a_closure_in_the_step_of_the_optimizer_is_no_optimizer(tmp_path: Path) -> None:
    events = []
    for number in range(3):
        for each in step(number):
            closure = each["name"].startswith("Optimizer")
            events.append(each | {"ts": 1000 * number + 110, "dur": 860} if closure else each)
    found = shares(diagnosis_of(tmp_path, events))
    assert (found["cpu_forward"], found["cpu_backward"]) == (28, 25)
    # From the end of the last node, without the wait.
    assert found["cpu_optimizer"] == 17


def test_a_large_share_of_communication_has_advice_without_a_gain(tmp_path: Path) -> None:
    events = []
    for number in range(3):
        for each in step(number):
            later = each["ts"] % 1000 > 700 or each["name"].startswith("ProfilerStep")
            shift = 1000 * number + (1000 if later and each["ts"] % 1000 else 0)
            dur = each["dur"] + (1000 if later and not each["ts"] % 1000 else 0)
            if each["name"].startswith("gloo") and not later:
                dur += 1000
            events.append(each | {"ts": each["ts"] + shift, "dur": dur})
    one = diagnosis_of(tmp_path, events)
    cause = cause_of(one, "communication")
    assert cause.share_pct == pytest.approx(55)  # 1,100 of 2,000 us
    assert (one.change, cause.likely_step_ns) == ("communication", None)
    assert "accumulate gradients" in str(cause.advice)
    assert any("slower rank" in line for line in one.not_known)


def test_ranks_that_are_read_together_tell_waits_from_transfer(tmp_path: Path) -> None:
    job = write_job(tmp_path / "job", late=1)
    with tbd_trace.open(job) as traces:
        found = {one.trace: shares(one) for one in traces.why().diagnoses}
    # 40 of 200 ms until rank 1 begins, then 60 ms.
    for name, causes in found.items():
        waits = {} if "rank1" in name else {"straggler": 20}
        assert causes == pytest.approx({**waits, "communication": 30, "cpu_work": 70 - sum(
            waits.values())}, abs=0.01)  # fmt: skip


def test_without_steps_the_whole_trace_is_divided(tmp_path: Path) -> None:
    events = [operator("aten::conv2d", 0, 300), operator("aten::relu", 300, 100)]
    one = diagnosis_of(tmp_path, events)
    assert (one.step_ns, one.steps, one.elapsed_ns) == (None, 0, 400_000)
    (cause,) = one.causes
    assert (cause.cause, cause.title, cause.ns_per_step) == ("cpu_work", "work on the CPU", None)
    assert cause.evidence == ("aten::conv2d 75 %, aten::relu 25 %; operators ran on 1 thread")
    shown = CliRunner().invoke(app, ["why", str(tmp_path / "made.json")])
    assert "no steps found; shares of 0.4 ms; no GPU operations" in shown.output


def test_a_process_that_launches_kernels_is_not_diagnosed_by_its_cpu(tmp_path: Path) -> None:
    path = write(tmp_path / "made.json", document([operator("aten::mm", 0, 50), launch(10, 1)]))
    assert CliRunner().invoke(app, ["why", str(path)]).exit_code == 3


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_phases_and_operators_of_a_run_are_those_of_pytorch(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(
        torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 256)
    )
    optimizer = torch.optim.Adam(model.parameters())
    file = tmp_path / "run.json"
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        schedule=torch.profiler.schedule(wait=1, warmup=3, active=4),
        on_trace_ready=lambda ended: ended.export_chrome_trace(str(file)),
    ) as profiler:
        for _ in range(8):
            model(torch.randn(64, 256)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            profiler.step()
    with tbd_trace.open(file) as traces:
        one = traces.why().slowest
        rows = traces.sql(
            "SELECT operator, sum(self_ns) / 1000 AS us FROM host_operator_time "
            "WHERE operator IS NOT NULL GROUP BY operator"
        )
    own = {row["operator"]: float(row["us"]) for row in rows.to_dicts()}
    us_by_cause = {cause.cause: (cause.ns_per_step or 0) * one.steps / 1000 for cause in one.causes}
    assert sum(cause.share_pct for cause in one.causes) == pytest.approx(100)
    # By the events alone, in the steps that count: the last ones.
    ranges = [each for each in json.loads(file.read_text())["traceEvents"] if each.get("ph") == "X"]
    marked = sorted(each["ts"] for each in ranges if each["name"].startswith("ProfilerStep#"))
    first = marked[-one.steps]

    def total(*names: str) -> float:
        return float(
            sum(e["dur"] for e in ranges if e["name"].startswith(names) and e["ts"] >= first)
        )

    for name in ("aten::addcdiv_", "aten::addcmul_", "aten::sqrt"):  # without operators inside
        assert own[name] == pytest.approx(total(name), rel=0.02, abs=5)
    assert us_by_cause["cpu_optimizer"] == pytest.approx(total("Optimizer."), rel=0.02, abs=5)
    # The pauses between the nodes are part of the pass.
    assert 0 < total("autograd::engine") - 5 <= us_by_cause["cpu_backward"]
    assert us_by_cause["cpu_forward"] >= own["aten::addmm"]
    averages = {each.key: each.self_cpu_time_total for each in profiler.key_averages()}
    if one.steps == len(marked):  # PyTorch has them all
        compared = [name for name in own if name.startswith("aten::") and averages[name] > 50]
        assert {"aten::addmm", "aten::mm"} <= set(compared)
        for name in compared:
            assert own[name] == pytest.approx(averages[name], rel=0.02, abs=5)
