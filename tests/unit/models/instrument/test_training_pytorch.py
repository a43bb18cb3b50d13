"""Marks of a training loop of one's own, put on by two lines."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from marked_loop import BATCH, Ranges, iterate, trained_model  # noqa: E402
from tbd_models.instrument import training_marks_pytorch  # noqa: E402
from tbd_models.instrument.layers_pytorch import measure  # noqa: E402
from tbd_models.instrument.marks import LAYERS_VARIABLE  # noqa: E402
from tbd_models.instrument.training_pytorch import TrainingMarks, instrument  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture
def marked() -> Iterator[tuple[Ranges, nn.Module, Any]]:
    model, optimizer = trained_model()
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
        iterate(model, optimizer)
    assert ranges.phases() == [["forward", "loss", "backward", "optimizer"]] * 3
    _check_tiling(ranges)
    assert {text for text, _ in ranges.open.values()} == {"iteration 3"}


def test_layers_lie_inside_their_phases(marked: tuple[Ranges, nn.Module, Any]) -> None:
    ranges, model, optimizer = marked
    iterate(model, optimizer)
    where = {name: (start, end) for name, start, end in ranges.of("phase:")}
    for kind, phase in (("layer:", "forward"), ("layer_backward:", "backward")):
        found = ranges.of(kind)
        assert {"0", "1", "2"} <= {name for name, _, _ in found}
        begin, finish = where[phase]
        assert all(begin < start and end < finish for _, start, end in found)


def test_gradient_accumulation_repeats_phases(marked: tuple[Ranges, nn.Module, Any]) -> None:
    ranges, model, optimizer = marked
    for _ in range(2):
        iterate(model, optimizer, passes=3)
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
        iterate(model, optimizer)
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
    iterate(model, optimizer)
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
        model, optimizer = trained_model()
        marks = TrainingMarks(model, optimizer, Ranges()) if with_marks else None
        losses.append([iterate(model, optimizer) for _ in range(4)])
        if marks is not None:
            marks.remove()
    assert losses[0] == losses[1]


def test_removing_leaves_nothing() -> None:
    original = torch.autograd.backward
    model, optimizer = trained_model()
    ranges = Ranges()
    marks = TrainingMarks(model, optimizer, ranges)
    assert torch.autograd.backward is not original
    marks.remove()
    assert torch.autograd.backward is original
    before = ranges.now
    iterate(model, optimizer)
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
    model, optimizer = trained_model()
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
    model, optimizer = trained_model()
    step = lambda: model(torch.randn(BATCH, 4)).sum().backward()  # noqa: E731
    expected = [layer.entry(BATCH) for layer in measure(model, step)]
    path = tmp_path / "layers.json"
    marks = _instrumented(model, optimizer, monkeypatch, path)
    iterate(model, optimizer, passes)
    assert json.loads(path.read_text()) == {"format_version": 1, "layers": expected}
    path.unlink()
    iterate(model, optimizer)
    assert not path.exists()
    marks.remove()


def test_two_forward_passes_of_one_backward_pass_are_two_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, optimizer = trained_model()
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
    model, optimizer = trained_model()
    marks = _instrumented(model, optimizer, monkeypatch, tmp_path / "missing" / "layers.json")
    iterate(model, optimizer)
    marks.remove()


def test_without_a_collector_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(LAYERS_VARIABLE, raising=False)
    monkeypatch.setattr(training_marks_pytorch, "NvtxMarks", Ranges)
    model, optimizer = trained_model()
    marks = instrument(model, optimizer)
    model(torch.randn(BATCH, 4))
    assert not torch.utils._python_dispatch._get_current_dispatch_mode_stack()
    marks.remove()
