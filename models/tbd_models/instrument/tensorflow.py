"""Phases and layers of a Keras model as NVTX ranges, in eager execution and in graphs.

The call of every layer becomes an operation of its own, whose gradient is that of the layer: its
forward and its backward pass each run as a whole between two marks. In a graph a mark is a Python
operation; control dependencies tie it to what it encloses and to the mark before it. With one
inter-operation thread all marks run on that thread, and so do the operations that they enclose.

XLA compiles no Python operations: there is nothing to mark in what it compiles.
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

# By identity, the weights whose gradients are wanted; None means all of them.
_WANTED: ContextVar[frozenset[int] | None] = ContextVar("wanted", default=None)


@contextmanager
def _alone(weights: Iterable[tf.Variable]) -> Iterator[None]:
    token = _WANTED.set(frozenset(map(id, weights)))
    try:
        yield
    finally:
        _WANTED.reset(token)


def inputs_alone() -> AbstractContextManager[None]:
    """Enclose the computation of gradients of inputs: layers leave out those of their weights."""
    return _alone(())


class Places(Protocol):
    """Where the marks of layers are put."""

    def push(self, text: str, after: Iterable[Any] = ()) -> Operations:
        """Begin a range once some tensors are known; return what must wait for that."""

    def pop(self, after: Iterable[Any] = ()) -> Operations:
        """End the innermost range once some tensors are known; return what must wait for that."""


class GraphMarks:
    """Marks that keep their place in a graph.

    Args:
        marks: where the ranges go when the graph runs.
    """

    def __init__(self, marks: Marks) -> None:
        self._marks = marks
        self._last: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()

    def push(self, text: str, after: Iterable[Any] = ()) -> Operations:
        """Begin a range once some tensors are known; return what must wait for that."""
        return self._at(after, lambda: self._marks.push(text))

    def pop(self, after: Iterable[Any] = ()) -> Operations:
        """End the innermost range once some tensors are known; return what must wait for that."""
        return self._at(after, self._marks.pop)

    def _at(self, after: Iterable[Any], act: Callable[[], None]) -> Operations:
        if isinstance(self._marks, NoMarks):
            return []  # the graph stays as it would be
        if tf.executing_eagerly():
            act()
            return []

        def run() -> np.int32:
            act()
            return np.int32(0)

        # TensorFlow keeps Python operations, but not in order: each waits for the one before it.
        graph = tf.compat.v1.get_default_graph()
        before = [*after, self._last.get(graph)]
        with tf.control_dependencies([value for value in before if value is not None]):
            mark = tf.numpy_function(run, [], tf.int32)
        self._last[graph] = mark.op
        return [mark]


def held(values: Any, operations: Operations) -> Any:
    """Return nested tensors that are known only after some operations have run."""
    if not operations:
        return values
    with tf.control_dependencies(operations):
        return tf.nest.map_structure(lambda v: tf.identity(v) if tf.is_tensor(v) else v, values)


def layer_names(model: keras.Model) -> dict[keras.layers.Layer, str]:
    """Return the layers inside a model by path. Cells of recurrent layers are parts of them."""
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
    """Marks the layers of a model until it is removed.

    Args:
        model: the model, built.
        marks: where the ranges go.
    """

    def __init__(self, model: keras.Model, marks: Places) -> None:
        self._marks = marks
        self._calls = {}
        for layer, name in layer_names(model).items():
            self._calls[layer] = layer.call
            layer.call = self._marked(layer, name, layer.call)

    def remove(self) -> None:
        """Give the layers their own calls back; functions traced meanwhile keep the marks."""
        for layer, call in self._calls.items():
            layer.call = call

    def _marked(self, layer: Any, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            # Gradients that nobody asks for must not be computed for the marks' sake. A tensor that
            # is given twice has one gradient.
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
        """Return what a layer returns, as it came and as it is known after its range."""
        tensors = [v for v in tf.nest.flatten((args, kwargs)) if tf.is_tensor(v)]
        begun = self._marks.push(f"layer:{name}", tensors)
        args, kwargs = held((args, kwargs), begun)
        out = call(*args, **kwargs)
        return out, held(out, self._marks.pop(tf.nest.flatten(out)))

    def _unit(
        self, name: str, call: Callable[..., Any], given: Any, inputs: dict[int, Any]
    ) -> tuple[Any, Callable[..., Any]]:
        """Return what a layer returns, and the function of its gradients."""
        args, kwargs = tf.nest.map_structure(lambda v: inputs.get(id(v), v), given)
        sources = list(inputs.values())
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(sources)
            out, put_out = self._forward(name, call, args, kwargs)
        learnt = {
            id(v) for v in tape.watched_variables() if record.should_record_backprop([v.handle])
        }
        unit = _Unit(name, self._marks, tape, tf.nest.flatten(out), sources)

        def gradient(*upstream: Any, variables: Any = ()) -> Any:
            weights = [v for v in variables if id(v) in learnt]
            to_inputs, to_weights = unit.gradients(list(upstream), weights)
            of = dict(zip(map(id, weights), to_weights, strict=True))
            return (to_inputs, [of.get(id(v)) for v in variables]) if variables else to_inputs

        return put_out, gradient


class _Unit:
    """The backward pass of a layer that has run.

    Args:
        name: the layer.
        marks: where the ranges go.
        tape: what the layer did.
        outputs: what it returned.
        sources: the tensors that it was given and that have gradients.
    """

    def __init__(
        self, name: str, marks: Places, tape: Any, outputs: list[Any], sources: list[Any]
    ) -> None:
        self._name = name
        self._marks = marks
        self._tape = tape
        self._outputs = outputs
        self._sources = sources

    def gradients(self, upstream: list[Any], weights: list[Any]) -> tuple[list[Any], list[Any]]:
        """Return the gradients of the sources and of weights, those that are not wanted as None."""
        inputs = [*self._sources, *weights]
        if record.could_possibly_record():
            found = self._once_more(upstream, inputs)
        else:
            found = self._run(self._outputs, inputs, upstream)
        return found[: len(self._sources)], found[len(self._sources) :]

    def _run(self, outputs: list[Any], inputs: list[Any], upstream: Any) -> list[Any]:
        """Return gradients; a layer inside computes those of weights that are asked for here."""
        known = _WANTED.get()
        asked = [
            value
            for value in inputs
            if known is None or id(value) in known or not isinstance(value, tf.Variable)
        ]
        begun = self._marks.push(f"layer_backward:{self._name}", upstream)
        with _alone(value for value in asked if isinstance(value, tf.Variable)):
            found = self._tape.gradient(outputs, asked, held(list(upstream), begun))
        found = held(found, self._marks.pop(values(found)))
        by_input = dict(zip(map(id, asked), found, strict=True))
        return [by_input.get(id(value)) for value in inputs]

    def _once_more(self, upstream: list[Any], inputs: list[Any]) -> list[Any]:
        """Return gradients that are differentiated in their turn, as a whole between two marks."""
        sources = [*inputs, *upstream]
        there: list[bool] = []

        @tf.custom_gradient
        def unit(*_: Any) -> Any:
            tapes.push_tape(self._tape._tape)
            try:
                self._tape.watch(upstream)
                found = self._run(self._outputs, inputs, upstream)
            finally:
                tapes.pop_tape(self._tape._tape)
            there.extend(value is not None for value in found)
            kept = [tf.convert_to_tensor(value) for value in found if value is not None]

            def gradient(*above: Any, variables: Any = ()) -> Any:
                # The weights are among the sources; layers inside may have read them once more.
                to_sources = self._run(kept, sources, above)
                return (to_sources, [None] * len(variables)) if variables else to_sources

            return kept, gradient

        kept = iter(unit(*map(tf.convert_to_tensor, sources)))
        return [next(kept) if is_there else None for is_there in there]


def _has_gradient(value: Any) -> bool:
    return (
        tf.is_tensor(value) and value.dtype.is_floating and record.should_record_backprop([value])
    )


def values(gradients: Iterable[Any]) -> list[Any]:
    """Return the tensors of gradients, of which those of embeddings are sparse."""
    return [g.values if isinstance(g, tf.IndexedSlices) else g for g in gradients]
