"""The phase of a training loop in which it gets batches from a DataLoader."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, Dataset, TensorDataset  # noqa: E402
from torch.utils.data.dataloader import _BaseDataLoaderIter  # noqa: E402

from tbd_models.instrument.marks import NoMarks  # noqa: E402
from tbd_models.instrument.training_pytorch import TrainingMarks  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")

SAMPLES = 8
PASS = ["forward", "loss", "backward"]


class Events(NoMarks):
    """Receives the begin of ranges, and their ends as ``/TEXT``."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def start(self, text: str) -> Any:
        self.found.append(text)
        return text

    def end(self, handle: Any) -> None:
        self.found.append(f"/{handle}")

    def phases(self) -> list[str]:
        return [t.removeprefix("phase:") for t in self.found if t.startswith("phase:")]


class Loop:
    """A model with an optimizer and marks."""

    def __init__(self) -> None:
        self.model = nn.Linear(2, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.events = Events()
        self.marks = TrainingMarks(self.model, self.optimizer, self.events)

    def train_on(self, batch: Any) -> None:
        self.model(batch).sum().backward()
        self.optimizer.step()


@pytest.fixture
def loop() -> Iterator[Loop]:
    made = Loop()
    yield made
    made.marks.remove()


def loader(**options: Any) -> Any:
    samples: Any = TensorDataset(torch.ones(SAMPLES, 2))
    return DataLoader(samples, batch_size=SAMPLES // 2, **options)


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_batches_of_a_loader_are_data(loop: Loop, workers: int) -> None:
    for (batch,) in loader(num_workers=workers):
        loop.train_on(batch)
    step = ["data", *PASS, "optimizer"]
    # The call that finds no more batch loads, too.
    assert loop.events.phases() == [*step, *step, "data"]
    texts = loop.events.found
    assert texts[1 + texts.index("phase:data")] == "/phase:data"
    assert texts[-1] == "/phase:data"


def test_time_between_optimizer_and_forward_pass_is_no_phase(loop: Loop) -> None:
    for _ in range(2):
        loop.train_on(torch.ones(3, 2))
    assert loop.events.phases() == [*PASS, "optimizer"] * 2
    assert loop.events.found[-3:] == ["/phase:optimizer", "/iteration 1", "iteration 2"]


def test_each_batch_of_an_accumulated_step_is_data(loop: Loop) -> None:
    for (batch,) in loader():
        loop.model(batch).sum().backward()
    loop.optimizer.step()
    assert loop.events.phases() == [*(["data", *PASS] * 2), "data", "optimizer"]


def test_a_loader_inside_another_phase_is_part_of_it(loop: Loop) -> None:
    batches = iter(loader())
    loss = loop.model(next(batches)[0]).sum()
    next(batches)
    loss.register_hook(lambda _gradient: next(iter(loader())) and None)
    loss.backward()
    assert loop.events.phases() == ["data", *PASS]


class Nested(Dataset):  # type: ignore[type-arg]
    """Gets its samples from another loader."""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, _number: int) -> Any:
        return next(iter(loader()))[0]


def test_a_loader_inside_a_loader_is_one_phase(loop: Loop) -> None:
    next(iter(DataLoader(Nested())))
    assert loop.events.phases() == ["data"]


def test_other_threads_load_for_themselves(loop: Loop) -> None:
    thread = threading.Thread(target=lambda: next(iter(loader())))
    thread.start()
    thread.join()
    assert loop.events.phases() == []
    next(iter(loader()))
    assert loop.events.phases() == ["data"]


def test_an_error_of_the_loader_ends_the_phase(loop: Loop) -> None:
    def fail(_samples: Any) -> None:
        raise ValueError("bad sample")

    with pytest.raises(ValueError, match="bad sample"):
        next(iter(loader(collate_fn=fail)))
    assert loop.events.found[-2:] == ["phase:data", "/phase:data"]


def test_removing_restores_the_iterators() -> None:
    original = _BaseDataLoaderIter.__next__
    made = Loop()
    assert _BaseDataLoaderIter.__next__ is not original
    made.marks.remove()
    assert _BaseDataLoaderIter.__next__ is original
    next(iter(loader()))
    assert made.events.phases() == []
