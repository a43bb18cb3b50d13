"""Phases and layers of a Keras model as NVTX ranges, in eager execution and in graphs.

The call of every layer becomes an operation of its own, whose gradient is that of the layer: its
forward and its backward pass each run as a whole between two marks. In a graph a mark is a Python
operation; control dependencies tie it to what it encloses and to the mark before it. With one
inter-operation thread all marks run on that thread, and so do the operations that they enclose.

XLA compiles no Python operations: there is nothing to mark in what it compiles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.eager import record

from tbd_models.instrument.marks import Marks, NoMarks

Operations = list[Any]


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

        def gradient(*upstream: Any, variables: Any = ()) -> Any:
            begun = self._marks.push(f"layer_backward:{name}", upstream)
            upstream = held(list(upstream), begun)
            found = tape.gradient(tf.nest.flatten(out), [*sources, *variables], upstream)
            found = held(found, self._marks.pop(_values(found)))
            to_inputs, to_weights = found[: len(sources)], found[len(sources) :]
            return (to_inputs, to_weights) if variables else to_inputs

        return put_out, gradient


def _has_gradient(value: Any) -> bool:
    return (
        tf.is_tensor(value) and value.dtype.is_floating and record.should_record_backprop([value])
    )


def _values(gradients: Iterable[Any]) -> list[Any]:
    """Return the tensors of gradients, of which those of embeddings are sparse."""
    return [g.values if isinstance(g, tf.IndexedSlices) else g for g in gradients]
