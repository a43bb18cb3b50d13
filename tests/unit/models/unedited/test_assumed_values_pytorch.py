"""Values of fake tensors: those of the program's data, and constants for the others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

torch = pytest.importorskip("torch")

from tbd_models.instrument.memory_storages_pytorch import FORWARD, Place  # noqa: E402
from tbd_models.unedited.fake_tensors_pytorch import FakeTraining  # noqa: E402


@pytest.fixture
def training() -> Iterator[FakeTraining]:
    place = Place()
    made = FakeTraining(place, lambda tensor: tensor.shape, lambda *_: None)
    with ExitStack() as modes:
        made._modes = modes
        made.start()
        made.finish_start()
        place.base = FORWARD
        place.layers.append("net")  # from here on, real tensors are represented by fake ones
        yield made


def test_masks_of_the_data_are_known(training: FakeTraining) -> None:
    with training.paused():
        tokens = torch.tensor([[5, 0], [7, 3]])
    mask = tokens != 0
    assert bool(mask.any())
    assert not bool(mask.all())
    assert int(mask.sum()) == 3
    assert tokens[mask].shape == (3,)
    assert mask.nonzero().tolist() == [[0, 0], [1, 0], [1, 1]]
    assert training.values.scalars == 0


def test_other_values_are_stated_constants(training: FakeTraining) -> None:
    loss = torch.rand(2, 3).sum()
    assert loss.item() == 1.0
    assert not torch.isnan(loss)
    assert torch.rand(2).numpy().tolist() == [1.0, 1.0]
    assert torch.rand(4).argmax().item() == 1
    assert training.values.scalars == 5


def test_unknown_conditions_select_all_elements(training: FakeTraining) -> None:
    values = torch.rand(2, 3)
    assert values[values > 0.5].shape == (6,)
    assert torch.masked_select(values, values > 0.5).shape == (6,)
    assert values.unique().shape == (6,)
    assert list(training.values.shapes) == ["nonzero", "unique"]


def test_a_changed_tensor_is_unknown(training: FakeTraining) -> None:
    with training.paused():
        tokens = torch.tensor([5, 0])
    mask = tokens != 0
    mask.logical_not_()
    assert mask.nonzero().shape == (2, 1)
    assert list(training.values.shapes) == ["nonzero"]


def test_a_batch_has_the_life_of_the_program_s(training: FakeTraining) -> None:
    with training.paused():
        tokens = torch.tensor([5, 0])
    assert (tokens != 0).shape == (2,)
    assert len(training._fakes) == 1
    del tokens
    assert len(training._fakes) == 0
