"""Real dumps: a training on gloo, in which a drawn rank goes wrong at a drawn step."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gloo_hang import CONTROLS, FAULTS, STEPS, Plan, line_of, run
from tbd_trace.analysis.hang.answer import Hang, explain_hang

pytest.importorskip("torch")
ROUNDS = 3


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TBD_TRACE_CACHE", str(tmp_path / "cache"))


def drawn(folder: Path, fault: str) -> Plan:
    """Return a training whose world, rank and step are drawn."""
    world = random.SystemRandom().randint(3, 8)
    ranks = world // 2 + 1 if fault == "stuck_in_group" else world
    wrong = random.SystemRandom().randrange(ranks)
    return Plan(folder, world, wrong, random.SystemRandom().randrange(STEPS), fault)


def explained(plan: Plan) -> Hang:
    run(plan)
    return explain_hang(plan.directory)[0]


def check(plan: Plan) -> None:
    """Run a training; the rank and the line are those of the fault."""
    answer = explained(plan).to_dict()
    assert answer["ranks"] == [plan.wrong], (plan, answer)
    assert answer["line"].endswith(f"gloo_hang.py:{line_of(plan.fault)}"), (plan, answer)
    assert plan.wrong not in answer["waiting"] or plan.fault == "one_more"


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["stuck", "other_type", "killed"])
def test_wrong_rank_is_named_with_its_line(fault: str, tmp_path: Path) -> None:
    check(drawn(tmp_path / "job", fault))


@pytest.mark.nightly(
    covered_by="tests/integration/test_hang_gloo.py::test_wrong_rank_is_named_with_its_line"
)
@pytest.mark.parametrize("round_", range(ROUNDS))
@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault(fault: str, round_: int, tmp_path: Path) -> None:
    check(drawn(tmp_path / f"job{round_}", fault))


@pytest.mark.slow
@pytest.mark.parametrize("fault", CONTROLS)
def test_training_that_ends_accuses_no_rank(fault: str, tmp_path: Path) -> None:
    plan = drawn(tmp_path / "job", fault)
    answer = explained(plan)
    barriers = {(c.rank, c.sequence) for c in answer.job.calls if c.operation == "barrier"}
    assert len(barriers) == STEPS * plan.world  # the training did end
    assert (answer.verdict.rule, answer.to_dict()["ranks"]) == ("healthy", [])


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["spinning", "skipped"])
def test_deleted_dump_accuses_no_other_rank(fault: str, tmp_path: Path) -> None:
    plan = drawn(tmp_path / "job", fault)
    run(plan)
    for rank in range(plan.world):
        copy = Path(shutil.copytree(plan.directory, tmp_path / f"without_{rank}"))
        (copy / f"dump_{rank}").unlink()
        answer = explain_hang(copy)[0].to_dict()
        assert set(answer["ranks"]) <= {plan.wrong}, (plan, rank, answer)


_PROGRAM = """\
import time
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(1000):
    if dist.get_rank() == 1 and step == 20:
        time.sleep(1000)
    loss = model(torch.randn(8, 32)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    dist.all_reduce(loss.detach())
"""


@pytest.mark.nightly(
    covered_by="tests/integration/test_hang_gloo.py::test_wrong_rank_is_named_with_its_line"
)
def test_collect_explains_ranks_that_reach_the_time_limit(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(_PROGRAM)
    words = [
        *("collect", "--ranks", "3", "--profiler", "torch", "--device", "cpu", "--timeout", "30"),
        *("-o", "capture", "--", sys.executable, "train.py"),
    ]
    done = subprocess.run(
        [sys.executable, "-m", "tbd_trace", *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 1
    assert "rank 1 hangs the job" in done.stderr
    assert explain_hang(tmp_path / "capture")[0].to_dict()["ranks"] == [1]
