"""Which operations of a program run on real tensors, and which on fake ones."""

from __future__ import annotations

import copy
from contextlib import ExitStack

import pytest

torch = pytest.importorskip("torch")

from torch._subclasses.fake_tensor import FakeTensor  # noqa: E402

from tbd_models.instrument.memory_storages_pytorch import FORWARD, OTHER, Place  # noqa: E402
from tbd_models.unedited.fake_tensors_pytorch import FakeTraining  # noqa: E402


def test_training_is_fake_and_the_rest_is_real() -> None:
    place = Place()
    weight = torch.nn.Parameter(torch.full((2, 3), 2.0))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    training = FakeTraining(place, lambda tensor: tensor.shape, lambda *_: None)
    with ExitStack() as modes:
        training._modes = modes
        training.start()
        training.keep_state(weight)
        training.finish_start()
        data = torch.arange(12.0).reshape(4, 3)
        assert data.sum().item() == 66  # outside of the training step
        place.base = FORWARD
        loss = torch.nn.functional.linear(data[1:3], weight).sum()
        loss.backward()
        place.base = OTHER
        optimizer.step()
        assert isinstance(loss, FakeTensor)
        assert isinstance(weight.grad, FakeTensor)
        assert weight.grad.shape == (2, 3)
        assert isinstance(copy.deepcopy(loss), FakeTensor)
        assert (data + 1).sum().item() == 78
        total = torch.zeros(())
        total += loss.detach()  # follows from the training: a stated constant
        assert total.item() == 1.0
    assert weight.tolist() == [[2.0] * 3] * 2  # as before


def test_views_of_a_data_set_are_not_the_data_set() -> None:
    training = FakeTraining(Place(), lambda tensor: tensor.shape, lambda *_: None)
    data = torch.zeros(1000, 4)
    part = data[8:16]
    assert training.fake(part).untyped_storage().nbytes() == 8 * 4 * 4
    # Autograd saves another object of the same view.
    assert training.fake(data[8:16]).untyped_storage()._cdata == (
        training.fake(part).untyped_storage()._cdata
    )
    tokens = torch.zeros(8, 33)
    inputs, wanted = (training.fake(view) for view in (tokens[:, :-1], tokens[:, 1:]))
    assert inputs.untyped_storage()._cdata == wanted.untyped_storage()._cdata
