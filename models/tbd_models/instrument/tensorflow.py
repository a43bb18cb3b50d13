"""Emit NVTX ranges for phases and layers of a Keras model, in eager execution and in graphs.

Each layer call becomes one operation with a custom gradient, so that its forward and its backward
pass each run between two marks. In a graph a mark is a Python operation; control dependencies
order it relative to the enclosed operations and the previous mark. With one inter-operation thread
all marks and the operations between them run on that thread.

XLA cannot compile Python operations, so compiled code is not marked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.eager import record
from tensorflow.python.eager import tape as tapes

from tbd_models.instrument.marks import Marks, NoMarks

Operations = list[Any]

# Ids of the weights whose gradients are requested; None for all.
_WANTED: ContextVar[frozenset[int] | None] = ContextVar("wanted", default=None)


@contextmanager
def _only(weights: Iterable[tf.Variable]) -> Iterator[None]:
    token = _WANTED.set(frozenset(map(id, weights)))
    try:
        yield
    finally:
        _WANTED.reset(token)


def input_gradients_only() -> AbstractContextManager[None]:
    """Return a context in which layers compute gradients of their inputs, not of their weights."""
    return _only(())


class RangeSink(Protocol):
    """Receiver of layer ranges; implemented by GraphMarks and by layer measurement."""

    def push(self, text: str, after: Iterable[Any] = ()) -> Operations:
        """Begin a range after some tensors are computed; return operations to wait for."""

    def pop(self, after: Iterable[Any] = ()) -> Operations:
        """End the innermost range after some tensors are computed; return operations as above."""


class GraphMarks:
    """Emit ranges in execution order inside a graph."""

    def __init__(self, marks: Marks) -> None:
        self._marks = marks
        self._last: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()

    def push(self, text: str, after: Iterable[Any] = ()) -> Operations:
        """Begin a range after some tensors are computed; return operations to wait for."""
        return self._at(after, lambda: self._marks.push(text))

    def pop(self, after: Iterable[Any] = ()) -> Operations:
        """End the innermost range after some tensors are computed; return operations as above."""
        return self._at(after, self._marks.pop)

    def _at(self, after: Iterable[Any], act: Callable[[], None]) -> Operations:
        if isinstance(self._marks, NoMarks):
            return []  # adds nothing to the graph
        if tf.executing_eagerly():
            act()
            return []

        def run() -> np.int32:
            act()
            return np.int32(0)

        # TensorFlow never prunes Python operations, but reorders them: chain each to the last one.
        graph = tf.compat.v1.get_default_graph()
        before = [*after, self._last.get(graph)]
        with tf.control_dependencies([value for value in before if value is not None]):
            mark = tf.numpy_function(run, [], tf.int32)
        self._last[graph] = mark.op
        return [mark]


def wait_for(values: Any, operations: Operations) -> Any:
    """Return nested tensors that become available only after some operations have run."""
    if not operations:
        return values
    with tf.control_dependencies(operations):
        return tf.nest.map_structure(lambda v: tf.identity(v) if tf.is_tensor(v) else v, values)


def layer_names(model: keras.Model) -> dict[keras.layers.Layer, str]:
    """Return the layers inside a model by path; cells belong to their recurrent layer."""
    names: dict[keras.layers.Layer, str] = {}

    def visit(parent: keras.layers.Layer, prefix: str) -> None:
        for layer in parent._flatten_layers(include_self=False, recursive=False):
            if layer in names or isinstance(layer, keras.layers.InputLayer):
                continue
            names[layer] = f"{prefix}{layer.name}"
            if not isinstance(layer, (keras.layers.RNN, keras.layers.Bidirectional)):
                visit(layer, f"{names[layer]}.")

    visit(model, "")
    return names


class LayerMarks:
    """Mark the layers of a built model until ``remove``."""

    def __init__(self, model: keras.Model, marks: RangeSink) -> None:
        self._marks = marks
        self._calls = {}
        for layer, name in layer_names(model).items():
            self._calls[layer] = layer.call
            layer.call = self._marked(layer, name, layer.call)

    def remove(self) -> None:
        """Restore the layers' calls; functions traced before keep their marks."""
        for layer, call in self._calls.items():
            layer.call = call

    def _marked(self, layer: Any, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            # Marking must not add gradients: take only tensors on a tape, each once.
            wanted = {id(v): v for v in tf.nest.flatten((args, kwargs)) if _has_gradient(v)}
            if not wanted and not (layer.trainable_weights and record.could_possibly_record()):
                return self._forward(name, call, args, kwargs)[1]

            @tf.custom_gradient
            def unit(*inputs: Any) -> Any:
                replaced = dict(zip(wanted, inputs, strict=True))
                return self._unit(name, call, (args, kwargs), replaced)

            return unit(*wanted.values())

        return run

    def _forward(
        self, name: str, call: Callable[..., Any], args: Any, kwargs: Any
    ) -> tuple[Any, Any]:
        # Returns the layer's output twice: unchanged, and dependent on the end of its range.
        tensors = [v for v in tf.nest.flatten((args, kwargs)) if tf.is_tensor(v)]
        begun = self._marks.push(f"layer:{name}", tensors)
        args, kwargs = wait_for((args, kwargs), begun)
        out = call(*args, **kwargs)
        return out, wait_for(out, self._marks.pop(tf.nest.flatten(out)))

    def _unit(
        self, name: str, call: Callable[..., Any], given: Any, inputs: dict[int, Any]
    ) -> tuple[Any, Callable[..., Any]]:
        # Returns the layer's output and its gradient function.
        args, kwargs = tf.nest.map_structure(lambda v: inputs.get(id(v), v), given)
        sources = list(inputs.values())
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(sources)
            out, output = self._forward(name, call, args, kwargs)
        trained = {
            id(v) for v in tape.watched_variables() if record.should_record_backprop([v.handle])
        }
        unit = _Unit(name, self._marks, tape, tf.nest.flatten(out), sources)

        def gradient(*upstream: Any, variables: Any = ()) -> Any:
            weights = [v for v in variables if id(v) in trained]
            to_inputs, to_weights = unit.gradients(list(upstream), weights)
            by_weight = dict(zip(map(id, weights), to_weights, strict=True))
            # custom_gradient passes `variables` only if there are any, and then expects a pair.
            return (
                (to_inputs, [by_weight.get(id(v)) for v in variables]) if variables else to_inputs
            )

        return output, gradient


class _Unit:
    # The backward pass of a layer after its forward pass: `tape` recorded the layer, `outputs` are
    # its results, `sources` its inputs that have gradients.

    def __init__(
        self, name: str, marks: RangeSink, tape: Any, outputs: list[Any], sources: list[Any]
    ) -> None:
        self._name = name
        self._marks = marks
        self._tape = tape
        self._outputs = outputs
        self._sources = sources

    def gradients(self, upstream: list[Any], weights: list[Any]) -> tuple[list[Any], list[Any]]:
        # Gradients of the sources and of weights; None where they are not requested.
        inputs = [*self._sources, *weights]
        if record.could_possibly_record():
            gradients = self._differentiable(upstream, inputs)
        else:
            gradients = self._run(self._outputs, inputs, upstream)
        return gradients[: len(self._sources)], gradients[len(self._sources) :]

    def _run(self, outputs: list[Any], inputs: list[Any], upstream: Any) -> list[Any]:
        # Nested layers see in _WANTED which weights this layer was asked for.
        wanted = _WANTED.get()
        requested = [
            value
            for value in inputs
            if wanted is None or id(value) in wanted or not isinstance(value, tf.Variable)
        ]
        begun = self._marks.push(f"layer_backward:{self._name}", upstream)
        with _only(value for value in requested if isinstance(value, tf.Variable)):
            gradients = self._tape.gradient(outputs, requested, wait_for(list(upstream), begun))
        gradients = wait_for(gradients, self._marks.pop(values(gradients)))
        by_input = dict(zip(map(id, requested), gradients, strict=True))
        return [by_input.get(id(value)) for value in inputs]

    def _differentiable(self, upstream: list[Any], inputs: list[Any]) -> list[Any]:
        # Second derivatives, as for WGAN-GP's gradient penalty: the first backward pass is itself
        # one operation with a custom gradient, so that the second also runs between two marks.
        sources = [*inputs, *upstream]
        exists: list[bool] = []

        @tf.custom_gradient
        def unit(*_: Any) -> Any:
            tapes.push_tape(self._tape._tape)
            try:
                self._tape.watch(upstream)
                gradients = self._run(self._outputs, inputs, upstream)
            finally:
                tapes.pop_tape(self._tape._tape)
            # custom_gradient cannot return None: drop missing gradients and restore them below.
            exists.extend(value is not None for value in gradients)
            present = [tf.convert_to_tensor(value) for value in gradients if value is not None]

            def gradient(*above: Any, variables: Any = ()) -> Any:
                # The weights are already sources; nested layers may have read them again.
                to_sources = self._run(present, sources, above)
                return (to_sources, [None] * len(variables)) if variables else to_sources

            return present, gradient

        remaining = iter(unit(*map(tf.convert_to_tensor, sources)))
        return [next(remaining) if is_present else None for is_present in exists]


def _has_gradient(value: Any) -> bool:
    return (
        tf.is_tensor(value) and value.dtype.is_floating and record.should_record_backprop([value])
    )


def values(gradients: Iterable[Any]) -> list[Any]:
    """Return gradients as tensors; embeddings have sparse ones (IndexedSlices)."""
    return [g.values if isinstance(g, tf.IndexedSlices) else g for g in gradients]
