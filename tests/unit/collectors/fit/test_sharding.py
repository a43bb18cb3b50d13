"""States that GPUs divide."""

from __future__ import annotations

import pytest

from tbd_collectors.fit.memory_log import Allocation, MemoryLog
from tbd_collectors.fit.sharding import Sharding


def one(kind: str, size: int, layer: str = "fc") -> Allocation:
    return Allocation(kind, size, layer, "setup", None)


@pytest.mark.parametrize(
    ("scheme", "divided"),
    [
        ("fsdp", {"weight", "weight_gradient", "optimizer_state"}),
        ("zero2", {"weight_gradient", "optimizer_state"}),
    ],
)
def test_schemes_divide_states(scheme: str, divided: set[str]) -> None:
    sharding = Sharding(scheme, 8, ())
    for kind in ("weight", "weight_gradient", "optimizer_state", "feature_map", "input"):
        assert sharding.size(one(kind, 81)) == (11 if kind in divided else 81)


def test_gathered_weights_are_those_outside_and_of_two_blocks() -> None:
    layers = {"embed": 5, "h.1.fc": 30, "h.1.norm": 1, "h.10": 20, "h.2": 10}
    log = MemoryLog({n: one("weight", s, name) for n, (name, s) in enumerate(layers.items())}, [])
    blocks = ("h.1", "h.2", "h.10")
    assert Sharding("fsdp", 2, blocks).gathered_bytes(log) == 5 + 31 + 20
    assert Sharding("zero2", 2, blocks).gathered_bytes(log) == 0
