"""Layer marks: whose every piece of the backward pass is, and that nothing else changes."""

from __future__ import annotations

import contextlib
import gc
import threading
import weakref
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from tbd_models.instrument.pytorch import LayerMarks, layer_names, tensors  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")


class Recorded:
    """Marks that remember what was pushed, and refuse to pop what is not there."""

    def __init__(self) -> None:
        self.pushed: list[str] = []
        self._open: dict[int, list[str]] = defaultdict(list)

    def push(self, text: str) -> None:
        self.pushed.append(text)
        self._open[threading.get_ident()].append(text)

    def pop(self) -> None:
        self._open[threading.get_ident()].pop()

    def start(self, text: str) -> None:
        raise AssertionError("layers are pushed and popped")

    def end(self, handle: None) -> None:
        raise AssertionError("layers are pushed and popped")

    def open(self) -> list[str]:
        return [text for stack in self._open.values() for text in stack]

    def backward(self) -> list[str]:
        begin = "layer_backward:"
        return [text.removeprefix(begin) for text in self.pushed if text.startswith(begin)]


class Add(nn.Module):
    def forward(self, a: Any, b: Any) -> Any:
        return a + b


class Residual(nn.Module):
    """One autograd node per module; ``relu`` runs twice."""

    def __init__(self, channels: int = 3) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(channels, channels, 1)
        self.norm2 = nn.BatchNorm2d(channels)
        self.add = Add()

    def forward(self, x: Any) -> Any:
        y = self.relu(self.norm1(self.conv1(x)))
        return self.relu(self.add(self.norm2(self.conv2(y)), x))


class Order:
    """Notes which module's output node the backward pass runs, by hooks of its own."""

    def __init__(self, model: nn.Module) -> None:
        self.seen: list[str] = []
        for module, name in layer_names(model).items():
            if not list(module.children()):
                module.register_forward_hook(self._hook(name))

    def _hook(self, name: str) -> Any:
        def note(_module: Any, _inputs: Any, output: Any) -> None:
            output.grad_fn.register_prehook(lambda _gradients: self.seen.append(name))

        return note


@pytest.mark.parametrize("needs_gradient", [False, True])
def test_backward_layers_are_those_of_the_nodes(needs_gradient: bool) -> None:
    model = nn.Sequential(nn.Conv2d(3, 3, 1), Residual(), Residual(), nn.MaxPool2d(2))
    order, marks = Order(model), Recorded()
    LayerMarks(model, marks)
    for _ in range(3):
        model(torch.randn(2, 3, 6, 6, requires_grad=needs_gradient)).sum().backward()
    assert len(order.seen) == 3 * (2 + 2 * 7)
    assert marks.backward() == order.seen
    assert not marks.open()


def test_forward_layers_nest_as_modules_do() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.ReLU()))
    marks = Recorded()
    LayerMarks(model, marks)
    model(torch.zeros(1, 2))
    assert marks.pushed == ["layer:Sequential", "layer:0", "layer:1", "layer:1.0"]


class Views(nn.Module):
    """Its output is a view of what is changed in place afterwards: autograd renews its node."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        y = self.linear(x)
        view = y[:, :3]
        y.mul_(2)
        return view


def test_a_view_of_what_was_changed_in_place_hides_no_layer() -> None:
    model, marks = Views(), Recorded()
    LayerMarks(model, marks)
    model(torch.randn(2, 4)).sum().backward()
    assert "linear" in marks.backward()
    assert not marks.open()


class Piece(nn.Module):
    """A random piece of a model that keeps the width."""

    def __init__(self, kind: str, width: int) -> None:
        super().__init__()
        self.kind = kind
        self.linear = nn.Linear(width, width)
        self.relu = nn.ReLU(inplace=True)
        self.dropout = nn.Dropout(0.5)
        self.shared = nn.Linear(width, width)

    def _branches(self, x: Any) -> dict[str, Any]:
        return {"a": self.linear(x), "b": [torch.tanh(self.shared(x))]}

    def forward(self, x: Any) -> Any:
        match self.kind:
            case "relu":
                return self.relu(self.linear(x))
            case "residual":
                return x + self.dropout(self.relu(self.linear(x)))
            case "branches":
                found = self._branches(x)
                return found["a"] * found["b"][0]
            case "twice":
                return self.shared(self.relu(self.shared(x)))
            case "checkpoint":
                return checkpoint(lambda y: self.relu(self.linear(y)), x, use_reentrant=False)
            case _:
                with torch.no_grad():
                    scale = self.shared(x).abs().mean()
                return self.linear(x) * scale


KINDS = ("relu", "residual", "branches", "twice", "checkpoint", "no_grad")


class Pieces(nn.Module):
    def __init__(self, kinds: list[str], seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.pieces = nn.ModuleList(Piece(kind, 4) for kind in kinds)
        self.fails = False

    def forward(self, x: Any) -> dict[str, Any]:
        for piece in self.pieces:
            x = piece(x)
        if self.fails:
            self.pieces[0].linear(torch.zeros(1, 99))
        return {"out": x, "parts": (x.sum(), None)}


def _train(model: Pieces, seed: int, accidents: list[bool]) -> list[Any]:
    """Train, evaluate in between, and survive errors; return losses and gradients."""
    torch.manual_seed(seed)
    found = []
    for accident in accidents:
        model.fails = accident
        with contextlib.suppress(RuntimeError):
            model(torch.randn(3, 4))
        model.fails = False
        model.zero_grad()
        loss = model(torch.randn(3, 4))["out"].square().mean()
        loss.backward()
        found += [loss.detach(), *(p.grad for p in model.parameters() if p.grad is not None)]
        with torch.no_grad():
            model.eval()(torch.randn(2, 4))
            model.train()
    return found


@pytest.mark.slow
@given(
    kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=4),
    accidents=st.lists(st.booleans(), min_size=1, max_size=3),
    seed=st.integers(0, 1000),
)
@settings(max_examples=25)
def test_marks_nest_and_change_nothing(kinds: list[str], accidents: list[bool], seed: int) -> None:
    plain = _train(Pieces(kinds, seed), seed, accidents)
    model, marks = Pieces(kinds, seed), Recorded()
    LayerMarks(model, marks)
    marked = _train(model, seed, accidents)
    assert all(torch.equal(a, b) for a, b in zip(plain, marked, strict=True))
    assert not marks.open()
    owned = {name.split(".")[1] for name in marks.backward() if "." in name}
    # Without a gradient there is no backward pass; checkpoints run again inside it.
    assert owned == {str(number) for number in range(len(kinds))}


def test_removing_takes_every_hook_off() -> None:
    model = nn.Sequential(Residual(), nn.Flatten())
    before = [list(vars(module)) for module in model.modules()]
    marks = Recorded()
    LayerMarks(model, marks).remove()
    for module, names in zip(model.modules(), before, strict=True):
        assert list(vars(module)) == names
        assert not module._forward_hooks
        assert not module._forward_pre_hooks
        assert not module._forward_hooks_always_called
    model(torch.randn(1, 3, 4, 4)).sum().backward()
    assert marks.pushed == []


class Witness:
    """Lives as long as the autograd node that holds it; nodes themselves take no weak reference."""


@pytest.mark.slow
def test_graphs_are_freed() -> None:
    model = nn.Sequential(Residual(), Residual())
    LayerMarks(model, Recorded())
    gc.collect()
    gc.disable()
    try:
        for backward in (True, False):
            out = model(torch.randn(2, 3, 4, 4))
            inner = out.grad_fn.next_functions[0][0]
            inner.metadata["witness"] = witness = Witness()
            node, result = weakref.ref(witness), weakref.ref(out)
            del inner, witness
            if backward:
                out.sum().backward()
            del out
            assert result() is None
            assert node() is None
    finally:
        gc.enable()


@pytest.mark.slow
def test_nothing_grows_over_iterations() -> None:
    model = Residual()
    marks = LayerMarks(model, Recorded())

    def iterate() -> int:
        model(torch.randn(1, 3, 4, 4)).sum().backward()
        gc.collect()
        sizes = [len(value) for value in vars(marks).values() if isinstance(value, (list, dict))]
        return sum(sizes) + sum(isinstance(o, torch.Tensor) for o in gc.get_objects())

    iterate()
    iterations = 20
    gc.freeze()  # the collector then skips existing objects, which takes most of its time
    try:
        before, *_, after = (iterate() for _ in range(iterations))
    finally:
        gc.unfreeze()
    # Other tests' tensors come and go; what an iteration keeps comes back every time.
    assert after - before < iterations - 1


def test_marks_of_nodes_in_any_thread_nest() -> None:
    model, marks = Pieces(["twice", "checkpoint"], 0), Recorded()
    LayerMarks(model, marks)
    loss = model(torch.randn(3, 4))["out"].sum()
    other = threading.Thread(target=loss.backward)
    other.start()
    other.join()
    assert "pieces.1.linear" in marks.backward()
    assert not marks.open()


def test_tensors_are_found_in_all_containers() -> None:
    ones = [torch.ones(n) for n in range(5)]
    nested = {"a": ones[0], "b": [ones[1], (ones[2], None, 3)], "c": {"d": {"e": ones[3]}}}
    assert [len(t) for t in tensors([nested, ones[4]])] == [0, 1, 2, 3, 4]
