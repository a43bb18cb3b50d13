"""Which parts of a training loop are marked for the window that collect asks for."""

from __future__ import annotations

import atexit
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from marked_loop import Ranges, iterate, trained_model  # noqa: E402
from tbd_models.instrument import training_marks_pytorch  # noqa: E402
from tbd_models.instrument.progress import Progress, ProgressRequest  # noqa: E402
from tbd_models.instrument.training_marks_pytorch import TrainingMarks  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")


def test_before_the_window_only_the_warm_up_is_marked() -> None:
    model, optimizer = trained_model()
    ranges = Ranges()
    marks = TrainingMarks(model, optimizer, ranges, window=3)
    for _ in range(5):
        iterate(model, optimizer)
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
    before = torch.autograd.backward
    model, optimizer = trained_model()
    ranges = Ranges()
    asked = ProgressRequest(tmp_path / "p", 2, 1, 0, in_program=False, stopped=tmp_path / "s")
    progress = Progress(asked)
    marks = TrainingMarks(model, optimizer, ranges, progress=progress, window=progress.window)
    for _ in range(3):
        iterate(model, optimizer)
    at_end = ranges.now
    for _ in range(2):
        iterate(model, optimizer)
    # Nor is anything left that would take time in a program that runs on.
    assert torch.autograd.backward is before
    assert not (optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    marks.remove()
    assert [text for text, _, _ in ranges.of("iteration ")] == ["1", "2"]
    assert (ranges.now, ranges.open) == (at_end, {})


def _iterations_with_layers(model: nn.Module, optimizer: Any, window: int) -> list[str]:
    marks = TrainingMarks(model, optimizer, Ranges(), window=window)
    found = []
    for number in range(7):
        if model[0]._forward_hooks:
            found.append(str(number))
        iterate(model, optimizer)
    marks.remove()
    assert not any(module._forward_hooks for module in model.modules())
    return found


@pytest.mark.parametrize(
    ("window", "expected"), [(0, "0123456"), (1, "0123456"), (2, "0123456"), (5, "0456")]
)
def test_layers_have_hooks_for_the_window(
    window: int, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training_marks_pytorch, "_is_compiled", lambda: False)
    assert "".join(_iterations_with_layers(*trained_model(), window)) == expected


def test_layers_of_a_compiled_program_always_have_hooks() -> None:
    torch.compiler.reset()
    model, optimizer = trained_model()
    model[0].forward = torch.compile(model[0].forward, backend="eager")
    try:
        assert "".join(_iterations_with_layers(model, optimizer, 5)) == "0123456"
    finally:
        torch.compiler.reset()
