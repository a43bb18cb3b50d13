"""Mark iterations and layers of each model that Keras fits."""

from __future__ import annotations

import functools
import inspect
from typing import Any
from weakref import WeakKeyDictionary

import keras

from tbd_models import auto
from tbd_models.instrument.auto_report import report
from tbd_models.instrument.iterations_keras import IterationMarks

_NO_ORDER = "TF_NUM_INTEROP_THREADS is not 1"


def install() -> None:
    """Add a callback to each call of ``fit``."""
    fit = keras.Model.fit
    signature = inspect.signature(fit)
    known: WeakKeyDictionary[Any, FitMarks] = WeakKeyDictionary()

    @functools.wraps(fit)
    def marked_fit(model: Any, *given: Any, **named: Any) -> Any:
        if not auto.is_active():
            return fit(model, *given, **named)
        try:
            call = signature.bind(model, *given, **named)
            marks = known.get(model) or known.setdefault(model, FitMarks())
        except (ImportError, TypeError) as error:  # no nvtx; fit reports wrong arguments itself
            report(framework="tensorflow", problem=str(error))
            return fit(model, *given, **named)
        call.arguments["callbacks"] = _with(call.arguments.get("callbacks"), marks)
        return fit(*call.args, **call.kwargs)

    keras.Model.fit = marked_fit


def _with(callbacks: Any, marks: FitMarks) -> Any:
    if isinstance(callbacks, keras.callbacks.CallbackList):
        callbacks.append(marks)
        return callbacks
    listed = callbacks if isinstance(callbacks, (list, tuple)) else [callbacks]
    return [*(callback for callback in listed if callback is not None), marks]


class FitMarks(IterationMarks):
    """Mark iterations, and layers from the first batch on, when Keras has built the model."""

    def __init__(self) -> None:
        super().__init__()
        self._layers: Any = None

    def on_train_begin(self, logs: Any = None) -> None:
        if self._layers is not None:
            return  # a second fit; the functions of the first keep their marks
        problem = self._why_no_layers()
        if problem is None:
            problem = self._mark_layers()
        report(
            framework=keras.backend.backend(),
            framework_version=_version(),
            boundary="batches of fit",
            model=None if problem else type(self.model).__name__,
            problem=problem and f"layers are not marked: {problem}",
        )

    def _why_no_layers(self) -> str | None:
        if keras.backend.backend() != "tensorflow":
            return f"the backend of Keras is {keras.backend.backend()}, not tensorflow"
        if self.model.jit_compile:
            return "XLA compiles the step; compile(jit_compile=False) runs it as a graph"
        strategy = getattr(self.model, "distribute_strategy", None)
        if strategy is not None and strategy.num_replicas_in_sync > 1:
            return "a strategy of TensorFlow has several replicas in this process"
        return None

    def _mark_layers(self) -> str | None:
        from tbd_models.instrument.tensorflow import GraphMarks, LayerMarks  # noqa: PLC0415
        from tbd_models.instrument.training_tensorflow import keep_order  # noqa: PLC0415

        try:
            keep_order()
        except RuntimeError:
            return _NO_ORDER
        self._layers = LayerMarks(self.model, GraphMarks(self._marks))
        return None


def _version() -> str | None:
    if keras.backend.backend() != "tensorflow":
        return None
    import tensorflow as tf  # noqa: PLC0415 - other backends do not need it

    return str(tf.__version__)
