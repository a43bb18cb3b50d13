"""Ranks of TensorFlow average their gradients."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from corpus import ROOT
from interpreters.run import TENSORFLOW
from interpreters.tensorflow_ranks import RATE, SIZE, STEPS, WIDTH, WORDS, samples
from tbd_collectors.rank_launch import Launch, launches

RANKS = 2
GRADIENT_BYTES = 4 * (WORDS * WIDTH + WIDTH + 1)

pytestmark = pytest.mark.needs("tensorflow")


def started(launch: Launch, **pipes: Any) -> subprocess.Popen[str]:
    path = os.pathsep.join([str(ROOT / "models"), str(ROOT / "tests")])
    script = ROOT / "tests" / "interpreters" / "tensorflow_ranks.py"
    environment = os.environ | {"PYTHONPATH": path} | launch.environment(0)
    return subprocess.Popen(
        [str(TENSORFLOW), str(script), "-1"], env=environment, text=True, **pipes
    )


@pytest.fixture(scope="module")
def ranks() -> list[dict[str, Any]]:
    """Return what each rank prints."""
    running = [started(launch, stdout=subprocess.PIPE) for launch in launches(RANKS, 1)]
    try:
        return [json.loads(process.communicate(timeout=200)[0]) for process in running]
    finally:
        for process in running:
            process.kill()
            process.wait()


def descended(weights: list[Any]) -> list[NDArray[np.float64]]:
    """Return the weights after steps of gradient descent on the samples of all ranks together."""
    table, matrix, bias = (np.array(weight, dtype=np.float64) for weight in weights)
    drawn = [np.random.default_rng(rank) for rank in range(RANKS)]
    for _ in range(STEPS):
        parts = [samples(SIZE, rng) for rng in drawn]
        word, number = (np.concatenate([part[name] for part in parts]) for name in parts[0])
        given = table[word]
        slope = 2 * (given @ matrix + bias - number) / len(word)
        to_given = slope @ matrix.T
        matrix, bias = matrix - RATE * given.T @ slope, bias - RATE * slope.sum(0)
        np.subtract.at(table, word, RATE * to_given)
    return [table, matrix, bias]


@pytest.mark.parametrize("execution", ["graph", "eager", "xla"])
def test_training_is_that_of_one_process_with_all_samples(
    ranks: list[dict[str, Any]], execution: str
) -> None:
    first, second = (rank[execution] for rank in ranks)
    assert first["before"] == second["before"]
    assert len({value for row in first["before"][0] for value in row}) == WORDS * WIDTH
    assert first["after"] == second["after"] != first["before"]
    for found, expected in zip(first["after"], descended(first["before"]), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("execution", ["graph", "eager", "xla"])
def test_the_all_reduce_is_between_backward_pass_and_update(
    ranks: list[dict[str, Any]], execution: str
) -> None:
    around = ["phase:optimizer", ""]
    if execution != "xla":
        around = ["phase:backward", *_layers(), "", *_all_reduce(), *around]
    else:
        around = [*_all_reduce(), *around]
    for rank in ranks:
        assert rank[execution]["texts"][-len(around) :] == around


def _layers() -> list[str]:
    return ["layer_backward:dense", "", "layer_backward:embedding", ""]


def _all_reduce() -> list[str]:
    return [f"all_reduce, bytes = {GRADIENT_BYTES}, bucket = 0", ""]


def test_the_first_rank_decides_for_all(ranks: list[dict[str, Any]]) -> None:
    assert {tuple(rank["graph"]["agreed"]) for rank in ranks} == {(True, False)}


def test_a_taken_port_is_named() -> None:
    (launch,) = launches(1, 1)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        # Of two ranks, so that the first has a server.
        launch = replace(launch, world_size=2, addresses=["127.0.0.1"] * 2, ports=[[port, 1]])
        with started(launch, stderr=subprocess.PIPE) as process:
            _, errors = process.communicate(timeout=200)
    assert process.returncode == 1
    assert errors.splitlines()[-1] == (
        f"RuntimeError: 127.0.0.1:{port} cannot be used (Could not start gRPC server); another "
        "program may have taken the port, so try again"
    )
