"""Mark iterations, phases and layers of a program that trains with ``gluon.Trainer`` of MXNet."""

from __future__ import annotations

import functools
import gc
import os
from collections.abc import Callable
from typing import Any

import mxnet as mx
from mxnet import autograd, gluon

from tbd_models import auto
from tbd_models.instrument.auto_report import report
from tbd_models.instrument.marks import Marks, NoMarks, NvtxMarks, iteration_text, marked
from tbd_models.instrument.progress import Progress, requested

_ENGINE = "NaiveEngine"


def install() -> None:
    """Wait for the first step of a trainer."""
    training = _Training()
    gluon.Trainer.step = training.wrapped_step(gluon.Trainer.step)
    mx.nd.NDArray.backward = training.wrapped_backward(mx.nd.NDArray.backward)
    autograd.backward = training.wrapped_backward(autograd.backward)


class _Training:
    # Iterations end with the steps of the trainer that steps first; the one before its first step
    # is not marked.

    def __init__(self) -> None:
        self._trainer: Any = None
        self._marks: Marks | None = None
        self._iteration: Any = None
        self._number = 1
        self._progress = Progress(None)

    def wrapped_step(self, step: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(step)
        def marked_step(trainer: Any, *given: Any, **named: Any) -> Any:
            if self._marks is None:
                result = step(trainer, *given, **named)
            else:
                with marked(self._marks, "phase:optimizer"):
                    result = step(trainer, *given, **named)
            if auto.is_active():
                self._stepped(trainer)
            return result

        return marked_step

    def wrapped_backward(self, backward: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(backward)
        def marked_backward(*given: Any, **named: Any) -> Any:
            if self._marks is None:
                return backward(*given, **named)
            with marked(self._marks, "phase:backward"):
                return backward(*given, **named)

        return marked_backward

    def _stepped(self, trainer: Any) -> None:
        if self._trainer is None:
            self._trainer = trainer
            try:
                self._begin()
            except Exception as error:  # must not end the training, which goes on without marks
                report(framework="mxnet", problem=f"{type(error).__name__}: {error}")
        elif trainer is self._trainer and self._marks is not None:
            self._marks.end(self._iteration)
            self._progress.iteration_ends()
            self._number += 1
        else:
            return
        if self._marks is not None:
            if self._progress.ends_window(self._number):
                self._marks = NoMarks()
            self._progress.iteration_begins(self._number)
            text = iteration_text(self._number, self._progress.window)
            self._iteration = self._marks.start(text)

    def _begin(self) -> None:
        marks = NvtxMarks()
        models = _models(self._trainer)
        problem = _why_no_layers(models)
        if problem is None:
            for model in models:
                _mark(model, marks)
        self._marks = marks
        self._progress = Progress(requested(), self._number)
        report(
            framework="mxnet",
            framework_version=mx.__version__,
            boundary="steps of gluon.Trainer",
            model=None if problem else " and ".join(type(model).__name__ for model in models),
            problem=problem and f"layers are not marked: {problem}",
        )


def _models(trainer: Any) -> list[Any]:
    # The outermost blocks that hold parameters of a trainer.
    trained = {id(parameter) for parameter in trainer._params}
    blocks = [block for block in gc.get_objects() if issubclass(type(block), gluon.Block)]
    holding = [
        block for block in blocks if any(id(p) in trained for p in block.collect_params().values())
    ]
    inner = {id(child) for block in holding for child in block._children.values()}
    return [block for block in holding if id(block) not in inner]


def _why_no_layers(models: list[Any]) -> str | None:
    if not models:
        return "no block holds the parameters of the trainer"
    if os.environ.get("MXNET_ENGINE_TYPE") != _ENGINE:
        return f"MXNET_ENGINE_TYPE is not {_ENGINE}"
    if any(getattr(model, "_active", False) for model in models):
        return "a hybridised model does not call its blocks; leave out hybridize()"
    return None


def _mark(model: Any, marks: Marks) -> None:
    from tbd_models.instrument.mxnet import LayerMarks  # noqa: PLC0415 - needs a running MXNet

    running: list[bool] = []

    def begin(_model: Any, _inputs: Any) -> None:
        running.append(autograd.is_recording())
        if running[-1]:
            marks.push("phase:forward")

    def end(_model: Any, _inputs: Any, _outputs: Any) -> None:
        if running.pop():
            marks.pop()

    model.register_forward_pre_hook(begin)
    model.register_forward_hook(end)
    LayerMarks(model, marks)
