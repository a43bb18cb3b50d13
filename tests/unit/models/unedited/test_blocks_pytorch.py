"""Blocks of a model: which, their work, and calls."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from tbd_models.instrument.memory_storages_pytorch import FORWARD, Place  # noqa: E402
from tbd_models.unedited.blocks_pytorch import Blocks, _blocks  # noqa: E402


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 3), nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.body(x)


def names(model: nn.Module) -> list[str]:
    return [name for name, _ in _blocks(model)]


def test_blocks_are_the_outermost_of_lists() -> None:
    stages = nn.Sequential(nn.Sequential(Block(), Block()), nn.Sequential(Block()), nn.Linear(3, 1))
    assert names(stages) == ["0.0", "0.1", "1.0"]
    assert names(nn.ModuleDict({"h": nn.ModuleList([Block(), Block()])})) == ["h.0", "h.1"]


def test_without_lists_they_are_the_parts_of_the_model() -> None:
    assert names(nn.ModuleDict({"encoder": Block(), "head": nn.Linear(3, 1)})) == ["encoder"]
    assert names(nn.Sequential(nn.Linear(3, 3), nn.ReLU())) == []


def test_calls_before_one_backward_pass_are_shared_weights() -> None:
    place = Place(base=FORWARD)
    model = nn.ModuleList([Block(), Block()])
    blocks = Blocks(model, place)
    for _ in range(2):
        model[0](torch.zeros(2, 3))
        place.backward_passes += 1
    model[1](model[1](torch.zeros(2, 3)))
    assert [(one["name"], len(one["calls"])) for one in blocks.report()] == [("0", 2)]


def test_flop_of_the_first_iteration_count() -> None:
    place = Place(base=FORWARD, iteration=0, layers=["0", "0.body"])
    blocks = Blocks(nn.ModuleList([Block()]), place)
    product = torch.ops.aten.mm.default
    tensors = (torch.zeros(2, 3), torch.zeros(3, 5))
    blocks.note_operation(product, tensors, {}, product(*tensors))
    place.iteration = 1
    blocks.note_operation(product, tensors, {}, product(*tensors))
    assert blocks._found["0"].flop == 2 * 2 * 3 * 5


def test_a_checkpointed_block_computes_the_same() -> None:
    model = nn.ModuleList([Block()])
    x = torch.ones(2, 3, requires_grad=True)
    expected = torch.autograd.grad(model[0](x).sum(), x)[0]
    Blocks(model, Place()).checkpoint(["0"])
    assert torch.equal(torch.autograd.grad(model[0](x).sum(), x)[0], expected)
