"""``tbd-trace collect`` as the ranks of torchrun: on one node, and on two with a shared folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tbd_trace
from tbd_collectors.network_namespaces import INTERFACE, namespaces

pytest.importorskip("torch")

SCRIPT = Path(__file__).parents[1] / "interpreters" / "zero_edit" / "data_parallel.py"
TORCHRUN = (sys.executable, "-m", "torch.distributed.run")
WARMUP, ITERATIONS = 3, 6
FAILS = """
import os, sys, time
if os.environ["RANK"] == "1":
    sys.exit("no data on this rank")
time.sleep(60)
"""


def collect(job: Path, *command: str | Path, profiler: str = "torch") -> list[str]:
    options = ("--device", "cpu", "--profiler", profiler, "--warmup", str(WARMUP))
    options = (*options, "--iterations", str(ITERATIONS), "-o", str(job))
    own = ("-m", "tbd_trace", "collect", *options, "--", sys.executable, *map(str, command))
    return ["--no-python", sys.executable, *own]


def environment(**variables: str) -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": "1"} | variables


def torchrun(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TORCHRUN, "--standalone", "--nproc-per-node=2", *words],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def check_job(job: Path) -> None:
    document = json.loads((job / "job.json").read_text())
    assert (document["status"], document["world_size"]) == ("ok", 2)
    assert len(document["points"][0]["iteration_s"]) == ITERATIONS - 1
    assert {path.name for path in job.iterdir()} == {"job.json", "rank=0", "rank=1"}
    traces = tbd_trace.open(job)
    timing = traces.query("iteration_timing")
    expected = [f"iteration {n}" for n in range(WARMUP, WARMUP + ITERATIONS)]
    by_rank = timing.group_by("trace_id", maintain_order=True).agg("label")
    assert by_rank["label"].to_list() == [expected, expected]
    members = traces.sql("FROM job_member SELECT rank, world_size ORDER BY rank").rows()
    assert members == [(0, 2), (1, 2)]


@pytest.mark.slow
def test_ranks_of_a_node(tmp_path: Path) -> None:
    done = torchrun(*collect(tmp_path / "job", SCRIPT))
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("iterations recorded; the program is stopped") == 2
    assert done.stderr.count(f"note: next: tbd-trace why {tmp_path}/job") == 1
    check_job(tmp_path / "job")


@pytest.mark.slow
@pytest.mark.needs("nsys")
def test_ranks_under_nsys(tmp_path: Path) -> None:
    done = torchrun(*collect(tmp_path / "job", SCRIPT, profiler="nsys"))
    assert done.returncode == 0, done.stderr
    check_job(tmp_path / "job")


@pytest.mark.slow
def test_a_rank_that_fails(tmp_path: Path) -> None:
    (tmp_path / "fails.py").write_text(FAILS)
    done = torchrun(*collect(tmp_path / "job", tmp_path / "fails.py"))
    assert done.returncode == 1
    assert "the program failed with exit code 1: no data on this rank" in done.stderr
    document = json.loads((tmp_path / "job" / "job.json").read_text())
    assert (document["status"], document["reason"].partition(":")[0]) == ("failed", "rank 1")
    assert {path.name for path in (tmp_path / "job").iterdir()} == {"job.json", "rank=0", "rank=1"}
    capture = json.loads((tmp_path / "job" / "rank=0" / "capture.json").read_text())
    assert capture["reason"] == "interrupted by SIGTERM"
    finished = subprocess.run(
        [sys.executable, "-m", "tbd_trace", "collect", "--finish", tmp_path / "job"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert finished.returncode == 1
    assert "rank 1: the program failed with exit code 1" in finished.stderr


@pytest.mark.slow
@pytest.mark.needs("root", "tc", "network_namespaces")
def test_two_nodes_with_a_shared_folder(tmp_path: Path) -> None:
    with namespaces(2) as within:
        nodes = [
            subprocess.Popen(
                [
                    *within.prefix(node),
                    *TORCHRUN,
                    *("--nnodes=2", f"--node-rank={node}", "--nproc-per-node=1"),
                    *(f"--master-addr={within.address(0)}", "--master-port=29511"),
                    *collect(tmp_path / "job", SCRIPT),
                ],
                env=environment(GLOO_SOCKET_IFNAME=INTERFACE),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for node in range(2)
        ]
        for node in nodes:
            _, said = node.communicate(timeout=180)
            assert node.returncode == 0, said
    check_job(tmp_path / "job")
