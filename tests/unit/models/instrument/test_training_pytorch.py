"""Marks of a training loop of one's own, put on by two lines."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from tbd_models.instrument import training_marks_pytorch  # noqa: E402
from tbd_models.instrument.layers_pytorch import measure  # noqa: E402
from tbd_models.instrument.marks import LAYERS_VARIABLE  # noqa: E402
from tbd_models.instrument.progress import Progress, ProgressRequest  # noqa: E402
from tbd_models.instrument.training_pytorch import TrainingMarks, instrument  # noqa: E402

BATCH = 3


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


class Ranges:
    """Ranges in the order of their ends, by a clock that counts events."""

    def __init__(self) -> None:
        self.now = 0
        self.ended: list[tuple[str, int, int]] = []
        self.open: dict[int, tuple[str, int]] = {}
        self._stack: list[int] = []

    def start(self, text: str) -> int:
        self.now += 1
        self.open[self.now] = (text, self.now)
        return self.now

    def end(self, handle: int) -> None:
        self.now += 1
        text, start = self.open.pop(handle)
        self.ended.append((text, start, self.now))

    def push(self, text: str) -> None:
        self._stack.append(self.start(text))

    def pop(self) -> None:
        self.end(self._stack.pop())

    def of(self, prefix: str) -> list[tuple[str, int, int]]:
        found = [(t.removeprefix(prefix), a, b) for t, a, b in self.ended if t.startswith(prefix)]
        return sorted(found, key=lambda entry: entry[1])

    def phases(self) -> list[list[str]]:
        """Return the phases in every iteration that ended."""
        return [
            [name for name, start, end in self.of("phase:") if begin < start and end < finish]
            for _, begin, finish in self.of("iteration ")
        ]


Model = tuple[nn.Module, Any]


def _model() -> Model:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(inplace=True), nn.Linear(8, 2))
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


def _iterate(model: nn.Module, optimizer: Any, passes: int = 1) -> float:
    for _ in range(passes):
        loss = model(torch.randn(BATCH, 4)).square().mean()
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return float(loss.detach())


@pytest.fixture
def marked() -> Iterator[tuple[Ranges, nn.Module, Any]]:
    model, optimizer = _model()
    ranges = Ranges()
    marks = TrainingMarks(model, optimizer, ranges)
    yield ranges, model, optimizer
    marks.remove()


def _check_tiling(ranges: Ranges) -> None:
    """Phases follow one another inside their iteration, nothing else between them."""
    phases = ranges.of("phase:")
    for (before, _, end), (_, start, _) in itertools.pairwise(phases):
        # Between an optimizer's step and the next forward pass lie the ends of both iterations.
        assert start - end == (3 if before == "optimizer" else 1)
    numbers = [text for text, _, _ in ranges.of("iteration ")]
    assert numbers == [str(number) for number in range(len(numbers))]


def test_phases_of_a_plain_loop(marked: tuple[Ranges, nn.Module, Any]) -> None:
    ranges, model, optimizer = marked
    for _ in range(3):
        _iterate(model, optimizer)
    assert ranges.phases() == [["forward", "loss", "backward", "optimizer"]] * 3
    _check_tiling(ranges)
    assert {text for text, _ in ranges.open.values()} == {"iteration 3"}


def test_layers_lie_inside_their_phases(marked: tuple[Ranges, nn.Module, Any]) -> None:
    ranges, model, optimizer = marked
    _iterate(model, optimizer)
    where = {name: (start, end) for name, start, end in ranges.of("phase:")}
    for kind, phase in (("layer:", "forward"), ("layer_backward:", "backward")):
        found = ranges.of(kind)
        assert {"0", "1", "2"} <= {name for name, _, _ in found}
        begin, finish = where[phase]
        assert all(begin < start and end < finish for _, start, end in found)


def test_before_the_window_only_the_warm_up_is_marked() -> None:
    model, optimizer = _model()
    ranges = Ranges()
    marks = TrainingMarks(model, optimizer, ranges, window=3)
    for _ in range(5):
        _iterate(model, optimizer)
    marks.remove()
    (_, begin, _), _ = ranges.of("iteration ")
    assert [text for text, _, end in ranges.ended if end < begin] == [
        "marks begin",
        *(f"warm-up {number}" for number in range(3)),
    ]
    assert [text for text, _, _ in ranges.of("iteration ")] == ["3", "4"]
    assert ranges.phases() == [["forward", "loss", "backward", "optimizer"]] * 2


def test_after_the_window_nothing_is_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atexit, "register", lambda *_, **__: None)
    model, optimizer = _model()
    ranges = Ranges()
    asked = ProgressRequest(tmp_path / "p", 2, 1, 0, in_program=False, stopped=tmp_path / "s")
    progress = Progress(asked)
    marks = TrainingMarks(model, optimizer, ranges, progress=progress, window=progress.window)
    for _ in range(3):
        _iterate(model, optimizer)
    at_end = ranges.now
    for _ in range(2):
        _iterate(model, optimizer)
    marks.remove()
    assert [text for text, _, _ in ranges.of("iteration ")] == ["1", "2"]
    assert (ranges.now, ranges.open) == (at_end, {})


def _iterations_with_layers(model: nn.Module, optimizer: Any, window: int) -> list[str]:
    marks = TrainingMarks(model, optimizer, Ranges(), window=window)
    found = []
    for number in range(7):
        if model[0]._forward_hooks:
            found.append(str(number))
        _iterate(model, optimizer)
    marks.remove()
    assert not any(module._forward_hooks for module in model.modules())
    return found


@pytest.mark.parametrize(
    ("window", "expected"), [(0, "0123456"), (1, "0123456"), (2, "0123456"), (5, "0456")]
)
def test_layers_have_hooks_for_the_window(window: int, expected: str) -> None:
    assert "".join(_iterations_with_layers(*_model(), window)) == expected


def test_layers_of_a_compiled_program_always_have_hooks() -> None:
    torch.compiler.reset()
    model, optimizer = _model()
    model[0].forward = torch.compile(model[0].forward, backend="eager")
    try:
        assert "".join(_iterations_with_layers(model, optimizer, 5)) == "0123456"
    finally:
        torch.compiler.reset()


def test_gradient_accumulation_repeats_phases(marked: tuple[Ranges, nn.Module, Any]) -> None:
    ranges, model, optimizer = marked
    for _ in range(2):
        _iterate(model, optimizer, passes=3)
    passes = ["forward", "loss", "backward"] * 3
    assert ranges.phases() == [[*passes, "optimizer"]] * 2


def test_a_gradient_scaler_that_is_off_changes_nothing(
    marked: tuple[Ranges, nn.Module, Any],
) -> None:
    ranges, model, optimizer = marked
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    for _ in range(2):
        scaler.scale(model(torch.randn(BATCH, 4)).sum()).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
    assert ranges.phases() == [["forward", "loss", "backward", "optimizer"]] * 2
    _check_tiling(ranges)


def test_evaluation_has_no_phases(marked: tuple[Ranges, nn.Module, Any]) -> None:
    ranges, model, optimizer = marked
    for _ in range(2):
        _iterate(model, optimizer)
        model.eval()
        model(torch.randn(BATCH, 4))
        model.train()
        with torch.no_grad():
            model(torch.randn(BATCH, 4))
    assert ranges.phases() == [["forward", "loss", "backward", "optimizer"]] * 2


def test_loops_go_on_after_errors(marked: tuple[Ranges, nn.Module, Any]) -> None:
    ranges, model, optimizer = marked
    with pytest.raises(RuntimeError):
        model(torch.randn(BATCH, 5))
    broken = model(torch.randn(BATCH, 4))
    broken.register_hook(_fail)
    with pytest.raises(ArithmeticError, match="in backward"):
        broken.sum().backward()
    _iterate(model, optimizer)
    assert ranges.phases() == [
        ["forward", "loss", "forward", "loss", "backward", "forward", "loss", "backward",
         "optimizer"]
    ]  # fmt: skip
    _check_tiling(ranges)


def _fail(_gradient: Any) -> None:
    raise ArithmeticError("in backward")


def test_a_backward_pass_inside_another_is_no_phase(
    marked: tuple[Ranges, nn.Module, Any],
) -> None:
    ranges, model, optimizer = marked
    out = torch.utils.checkpoint.checkpoint(
        model, torch.randn(BATCH, 4, requires_grad=True), use_reentrant=True
    )
    out.sum().backward()
    optimizer.step()
    assert ranges.phases()[0].count("backward") == 1


def test_marks_change_no_losses() -> None:
    losses = []
    for with_marks in (False, True):
        torch.manual_seed(1)
        model, optimizer = _model()
        marks = TrainingMarks(model, optimizer, Ranges()) if with_marks else None
        losses.append([_iterate(model, optimizer) for _ in range(4)])
        if marks is not None:
            marks.remove()
    assert losses[0] == losses[1]


def test_removing_leaves_nothing() -> None:
    original = torch.autograd.backward
    model, optimizer = _model()
    ranges = Ranges()
    marks = TrainingMarks(model, optimizer, ranges)
    assert torch.autograd.backward is not original
    marks.remove()
    assert torch.autograd.backward is original
    before = ranges.now
    _iterate(model, optimizer)
    assert ranges.now == before
    assert not optimizer._optimizer_step_pre_hooks
    assert not optimizer._optimizer_step_post_hooks
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


Loop = Callable[[nn.Module, Any], object]


def _interrupted(model: nn.Module, _optimizer: Any) -> None:
    with contextlib.suppress(RuntimeError):
        model(torch.randn(BATCH, 5))


@pytest.mark.parametrize("loop", [lambda _model, _optimizer: None, _interrupted])
def test_removing_in_the_first_iteration_ends_the_measurement(tmp_path: Path, loop: Loop) -> None:
    model, optimizer = _model()
    marks = TrainingMarks(model, optimizer, Ranges(), BATCH, layers_file=tmp_path / "layers.json")
    loop(model, optimizer)
    marks.remove()
    assert not torch.utils._python_dispatch._get_current_dispatch_mode_stack()
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert not (tmp_path / "layers.json").exists()


def _instrumented(
    model: nn.Module, optimizer: Any, monkeypatch: pytest.MonkeyPatch, path: Path
) -> TrainingMarks:
    monkeypatch.setenv(LAYERS_VARIABLE, str(path))
    monkeypatch.setattr(training_marks_pytorch, "NvtxMarks", Ranges)
    return instrument(model, optimizer, batch_size=BATCH)


@pytest.mark.parametrize("passes", [1, 4])
def test_layers_are_those_of_one_step(
    passes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, optimizer = _model()
    step = lambda: model(torch.randn(BATCH, 4)).sum().backward()  # noqa: E731
    expected = [layer.entry(BATCH) for layer in measure(model, step)]
    path = tmp_path / "layers.json"
    marks = _instrumented(model, optimizer, monkeypatch, path)
    _iterate(model, optimizer, passes)
    assert json.loads(path.read_text()) == {"format_version": 1, "layers": expected}
    path.unlink()
    _iterate(model, optimizer)
    assert not path.exists()
    marks.remove()


def test_two_forward_passes_of_one_backward_pass_are_two_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, optimizer = _model()
    path = tmp_path / "layers.json"
    marks = _instrumented(model, optimizer, monkeypatch, path)
    (model(torch.randn(BATCH, 4)) + model(torch.randn(BATCH, 4))).sum().backward()
    marks.remove()
    layers = {layer["name"]: layer for layer in json.loads(path.read_text())["layers"]}
    assert layers["0"]["forward_flop"] == 2 * 4 * 8
    assert layers["0"]["backward_flop"] == 2 * 4 * 8
    assert layers["2"]["backward_flop"] == 2 * 2 * 8 * 2


def test_a_place_that_cannot_be_written_does_not_end_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, optimizer = _model()
    marks = _instrumented(model, optimizer, monkeypatch, tmp_path / "missing" / "layers.json")
    _iterate(model, optimizer)
    marks.remove()


def test_without_a_collector_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(LAYERS_VARIABLE, raising=False)
    monkeypatch.setattr(training_marks_pytorch, "NvtxMarks", Ranges)
    model, optimizer = _model()
    marks = instrument(model, optimizer)
    model(torch.randn(BATCH, 4))
    assert not torch.utils._python_dispatch._get_current_dispatch_mode_stack()
    marks.remove()
