"""Batches of another size than the program makes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader, TensorDataset, dataloader  # noqa: E402

from tbd_models.unedited.batches_pytorch import Batches  # noqa: E402


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    iterators: Any = dataloader._BaseDataLoaderIter
    original = iterators.__next__
    yield
    iterators.__next__ = original


def loader() -> DataLoader[Any]:
    return DataLoader(TensorDataset(torch.arange(8), torch.arange(16).reshape(8, 2)), batch_size=4)


def test_a_loader_repeats_samples() -> None:
    batches = Batches(6)
    first, second = next(iter(loader()))
    assert first.tolist() == [0, 1, 2, 3, 0, 1]
    assert second[:, 0].tolist() == [0, 2, 4, 6, 0, 2]
    assert (batches.size, batches.used, batches.source) == (4, 6, "the DataLoader")
    assert batches.shape(torch.zeros(4, 3)) == (4, 3)  # the loader has changed it


def test_without_a_wish_batches_stay() -> None:
    batches = Batches(None)
    assert next(iter(loader()))[0].tolist() == [0, 1, 2, 3]
    assert (batches.size, batches.used) == (4, 4)


def test_batches_are_nested() -> None:
    Batches(3)
    samples = [{"x": torch.full((2,), float(n)), "name": f"s{n}"} for n in range(4)]

    def collate(part: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "x": torch.stack([one["x"] for one in part]),
            "name": [one["name"] for one in part],
            "scale": torch.tensor(2.0),
        }

    batch = next(iter(DataLoader(samples, batch_size=2, collate_fn=collate)))  # type: ignore[arg-type]
    assert batch["x"][:, 0].tolist() == [0, 1, 0]
    assert batch["name"] == ["s0", "s1", "s0"]
    assert batch["scale"].item() == 2


def test_inputs_of_the_first_call_are_resized_without_a_loader() -> None:
    batches = Batches(10)
    batches.note_call(((torch.zeros(4, 3), torch.zeros(4)), {"mask": None}))
    assert (batches.size, batches.source) == (4, "the first training call")
    assert batches.shape(torch.zeros(4, 3)) == (10, 3)
    assert batches.shape(torch.zeros(3, 4)) == (3, 4)
    assert batches.shape(torch.zeros(())) == ()
