"""Which optimizer, and which modules, the automatic marks of PyTorch choose."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.utils.data.dataloader import _BaseDataLoaderIter  # noqa: E402

import tbd_trace  # noqa: E402
from tbd_models import auto  # noqa: E402
from tbd_models.auto import pytorch  # noqa: E402
from tbd_models.instrument import training_marks_pytorch  # noqa: E402
from tbd_models.instrument.marks import REPORT_VARIABLE, NoMarks  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")


class Texts(NoMarks):
    """Receives the texts of ranges."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def push(self, text: str) -> None:
        self.found.append(text)

    def start(self, text: str) -> None:
        self.found.append(text)

    def of(self, prefix: str) -> list[str]:
        return [t.removeprefix(prefix) for t in self.found if t.startswith(prefix)]


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Texts:
    gc.collect()  # optimizers of other tests
    found = Texts()
    monkeypatch.setattr(training_marks_pytorch, "NvtxMarks", lambda: found)
    monkeypatch.setattr(auto, "is_active", lambda: True)
    monkeypatch.setenv(REPORT_VARIABLE, str(tmp_path / "auto.json"))
    # The marks of these tests are not removed.
    monkeypatch.setattr(torch.autograd, "backward", torch.autograd.backward)
    iterator = _BaseDataLoaderIter
    monkeypatch.setattr(iterator, "__next__", iterator.__next__)
    return found


def watched(*optimizers: Any) -> pytorch._Search:
    search = pytorch._Search()
    for optimizer in optimizers:
        optimizer.register_step_post_hook(search.stepped)
    return search


def descent(model: nn.Module) -> Any:
    return torch.optim.SGD(model.parameters(), lr=0.1)


def step(model: nn.Module, optimizer: Any) -> None:
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()


def report(directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((directory / "auto.json").read_text())
    return found


@pytest.mark.slow
def test_two_models_with_two_optimizers(texts: Texts, tmp_path: Path) -> None:
    generator, critic = nn.Sequential(nn.Linear(2, 3)), nn.Sequential(nn.Linear(3, 1))
    first, second = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (critic, generator))
    watched(first, second)
    for _ in range(4):
        for optimizer in (first, second):
            critic(generator(torch.ones(2, 2))).sum().backward()
            optimizer.step()
    assert texts.of("iteration ") == ["2", "3", "4"]
    assert set(texts.of("layer:")) == {
        "Sequential",
        "Sequential2",
        "Sequential.0",
        "Sequential2.0",
    }
    assert report(tmp_path)["boundary"] == "steps of SGD, the first of 2 optimizers"


@pytest.mark.slow
@pytest.mark.parametrize("critic_steps", [2, 3, 5])
def test_iterations_end_with_the_optimizer_that_steps_least_often(
    critic_steps: int, texts: Texts, tmp_path: Path
) -> None:
    critic, generator = nn.Sequential(nn.Linear(3, 1)), nn.Linear(2, 3)
    often, rare = descent(critic), torch.optim.Adam(generator.parameters())
    watched(often, rare)
    for _ in range(4):
        for _ in range(critic_steps):
            critic(generator(torch.ones(2, 2)).detach()).sum().backward()
            often.step()
        critic(generator(torch.ones(2, 2))).sum().backward()
        rare.step()
    assert texts.of("iteration ") == ["2", "3", "4"]
    period = texts.found[texts.found.index("iteration 2") : texts.found.index("iteration 3")]
    assert period.count("layer:Linear") == critic_steps + 1
    assert period.count("layer:Sequential") == critic_steps + 1
    assert period.count("phase:optimizer") == 1
    assert report(tmp_path)["boundary"] == "steps of Adam, the rarest of 2 optimizers"
    assert report(tmp_path)["model"] == "Sequential and Linear"


@pytest.mark.slow
def test_an_optimizer_that_never_steps_delays_the_marks(texts: Texts, tmp_path: Path) -> None:
    model, average = nn.Linear(2, 1), nn.Linear(2, 1)
    optimizer, unused = descent(model), descent(average)
    watched(optimizer, unused)
    for _ in range(22):
        step(model, optimizer)
    assert texts.of("iteration ") == ["20", "21", "22"]
    said = report(tmp_path)["boundary"]
    assert said == "steps of SGD; another optimizer has not stepped in 20 of them"


def test_a_training_that_ends_while_another_optimizer_is_awaited(
    texts: Texts, tmp_path: Path
) -> None:
    model, average = nn.Linear(2, 1), nn.Linear(2, 1)
    optimizer, unused = descent(model), descent(average)
    search = watched(optimizer, unused)
    for _ in range(7):
        step(model, optimizer)
    search._report_end()
    search._end()
    assert texts.found == []
    assert report(tmp_path)["problem"] == "another optimizer has not stepped in 7 steps"


@pytest.mark.parametrize("kind", ["of the same parameters", "dropped"])
def test_optimizers_that_are_not_awaited(kind: str, texts: Texts) -> None:
    model, other = nn.Linear(2, 1), nn.Linear(2, 1)
    optimizer = descent(model)
    unused = descent(model if kind == "of the same parameters" else other)
    watched(optimizer)
    step(model, optimizer)
    step(model, optimizer)
    if kind == "dropped":
        assert texts.found == []
        del unused
        gc.collect()
    step(model, optimizer)
    first = "3" if kind == "dropped" else "2"
    assert texts.of("iteration ")[0] == first


def test_parts_of_a_model_that_the_loop_calls(texts: Texts) -> None:
    model = nn.ModuleDict({"body": nn.Linear(2, 3), "head": nn.Linear(3, 1)})
    optimizer = torch.optim.SGD(model["head"].parameters(), lr=0.1)  # the body is frozen
    watched(optimizer)
    for _ in range(3):
        model["head"](model["body"](torch.ones(2, 2))).sum().backward()
        optimizer.step()
    assert texts.of("layer:") == ["body", "head"]
    assert texts.of("phase:")[:4] == ["forward", "loss", "forward", "loss"]


def test_a_closure_runs_inside_the_step(texts: Texts) -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watched(optimizer)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = model(torch.ones(1, 2)).sum()
        loss.backward()
        return loss

    for _ in range(3):
        optimizer.step(closure)
    assert texts.of("phase:") == ["forward", "loss", "backward", "optimizer"]


@pytest.mark.slow
def test_a_compiled_model_has_iterations(texts: Texts) -> None:
    model = torch.compile(nn.Linear(2, 1), backend="eager")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watched(optimizer)
    for _ in range(4):
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    assert texts.of("iteration ") == ["2", "3", "4"]
    assert texts.of("phase:")[:4] == ["forward", "loss", "backward", "optimizer"]


def test_tensors_without_a_module(texts: Texts, tmp_path: Path) -> None:
    weight = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    watched(optimizer)
    for _ in range(3):
        weight.sum().backward()
        optimizer.step()
    assert texts.found == []
    assert report(tmp_path)["problem"] == "no module with the trained parameters was called"


def test_marks_of_the_program_take_precedence(
    texts: Texts, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watched(optimizer)
    monkeypatch.undo()
    monkeypatch.setattr(training_marks_pytorch, "NvtxMarks", lambda: texts)
    monkeypatch.setattr(auto._State, "active", True)
    tbd_trace.instrument(model, optimizer).remove()
    texts.found.clear()
    for _ in range(3):
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    assert texts.found == []
    assert not auto.is_active()


def test_an_error_ends_the_search_alone(
    texts: Texts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watched(optimizer)

    def failing() -> None:
        raise ImportError("no nvtx")

    monkeypatch.setattr(training_marks_pytorch, "NvtxMarks", failing)
    for _ in range(3):
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    assert report(tmp_path)["problem"] == "ImportError: no nvtx"
    assert not model._forward_hooks
