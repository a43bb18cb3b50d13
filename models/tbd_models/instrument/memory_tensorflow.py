"""Estimate the memory of training steps of a Keras model from their graphs.

TensorFlow reports no allocations on a CPU. A step is traced instead, and executed only if shapes
depend on values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from tbd_models.instrument.memory_graph_tensorflow import Sizes, Tensor, is_sized, root
from tbd_models.instrument.memory_schedule import Buffer, Recording
from tbd_models.instrument.memory_scopes_tensorflow import Scopes
from tbd_models.instrument.tensorflow import layer_names

_ASSUMPTIONS = [
    "the step runs as a graph; operations that TensorFlow prunes before execution count as run",
    "constants, and tensors inside loops that no accumulator keeps, are left out",
]
# Operations that read only the shape of their input.
_SHAPES = frozenset(("Shape", "ShapeN", "Size", "Rank"))
_KINDS = {
    "forward": "temporary",
    "backward": "activation_gradient",
    "optimizer": "optimizer_temporary",
}


@dataclass(frozen=True, slots=True)
class Update:
    """A weight update: ``loss`` runs the forward pass on a batch."""

    loss: Callable[[Any], Any]
    weights: list[keras.Variable]
    optimizer: keras.optimizers.Optimizer
    times: int = 1  # repetitions in an iteration


def estimate(
    model: keras.Model,
    updates: Iterable[Update],
    batch: Mapping[str, Any],
    batch_size: int,
    device_type: str = "cpu",
) -> Recording:
    """Return the memory of a built model's training, one iteration of which runs ``updates``.

    The variables of the optimizers must exist.
    """
    updates = list(updates)
    recording = Recording("tensorflow", "tf_bfc", device_type, batch_size, list(_ASSUMPTIONS))
    recording.permanent = _variables(model, [update.optimizer for update in updates])
    for update in updates:
        step = _Step(model, update, batch)
        recording.assumptions += [text for text in step.notes if text not in recording.assumptions]
        recording.schedules += [step.buffers()] * update.times
    return recording


def _variables(model: keras.Model, optimizers: list[keras.optimizers.Optimizer]) -> list[Buffer]:
    owners = _owners(model)
    buffers: dict[int, Buffer] = {}

    def add(kind: str, variables: Iterable[Any], layer: Callable[[Any], str | None]) -> None:
        for variable in variables:
            dtype = tf.as_dtype(variable.dtype)
            buffer = Buffer(kind, tuple(variable.shape), dtype.name, dtype.size, "setup")
            buffer.layer, buffer.operator = layer(variable), variable.path
            buffers.setdefault(id(variable), buffer)

    def layer(variable: Any) -> str | None:
        return owners.get(id(variable))

    add("weight", model.trainable_variables, layer)
    add("buffer", model.non_trainable_variables, layer)
    # Keras names a state OPTIMIZER/WEIGHT_STATE, with underscores in the path of the weight.
    paths = {w.path.replace("/", "_"): owners.get(id(w)) for w in model.trainable_variables}

    def layer_of_state(variable: Any) -> str | None:
        name = variable.path.rpartition("/")[2]
        return paths.get(max((p for p in paths if name.startswith(p)), key=len, default=""))

    for optimizer in optimizers:
        add("optimizer_state", optimizer.variables, layer_of_state)
    return list(buffers.values())


def _owners(model: keras.Model) -> dict[int, str]:
    # A layer's variables include those of its children. A weight that several layers share belongs
    # to the first.
    owners: dict[int, str] = {}
    for layer, name in layer_names(model).items():
        for variable in layer.variables:
            owner = owners.setdefault(id(variable), name)
            if name.startswith(f"{owner}."):
                owners[id(variable)] = name
    return owners


class _Step:
    # The traced step of one weight update. Forward, backward and optimizer phases are intervals of
    # the graph's operations: names do not separate them where the loss contains gradients.

    def __init__(self, model: keras.Model, update: Update, batch: Mapping[str, Any]) -> None:
        self._update = update
        self._owners = _owners(model)
        self._scopes = Scopes(model)
        self._bounds: list[int] = []
        self._gradients: list[Any] = []
        function = tf.function(self._trace)
        with self._scopes:
            concrete = function.get_concrete_function(batch)
        self._operations = concrete.graph.get_operations()[: self._bounds[-1]]
        self._inputs = [tensor for tensor in concrete.graph.inputs if is_sized(tensor)]
        captured = {id(inside) for _, inside in concrete.graph.captures}
        self._inputs = [tensor for tensor in self._inputs if id(tensor) not in captured]
        unknown = concrete.structured_outputs
        self._sizes = Sizes(concrete(batch) if unknown else {})
        self.notes = (
            ["shapes that depend on values are those of one executed step"] if unknown else []
        )

    def _trace(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        # Returns the shapes that are unknown before execution.
        graph, update = tf.compat.v1.get_default_graph(), self._update
        self._scopes.graph, self._bounds = graph, []
        weights = [weight.value for weight in update.weights]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(weights)
            loss = update.optimizer.scale_loss(update.loss(batch))
        self._bounds.append(len(graph.get_operations()))
        self._gradients = tape.gradient(loss, weights)
        self._bounds.append(len(graph.get_operations()))
        update.optimizer.apply(self._gradients, update.weights)
        self._bounds.append(len(graph.get_operations()))
        tensors = [tensor for each in graph.get_operations() for tensor in each.outputs]
        return {t.name: tf.shape(t) for t in tensors if is_sized(t) and not _is_static(t)}

    def buffers(self) -> list[Buffer]:
        """Return the buffers of the step, with positions of its operations as lifetimes."""
        by_tensor: dict[Tensor, Buffer] = {}
        end = len(self._operations)
        for tensor in self._inputs:
            by_tensor[tensor.ref()] = self._buffer("input", tensor, "other", -1, end)
        for position, operation in enumerate(self._operations):
            phase = self._phase(position)
            for tensor in () if operation.type in _SHAPES else operation.inputs:
                buffer = by_tensor.get(root(tensor).ref())
                if buffer is not None:
                    buffer.last = max(buffer.last, position)
                    if (buffer.phase, phase) == ("forward", "backward"):
                        buffer.kind = "feature_map"
            for tensor in operation.outputs:
                if self._sizes.is_made_by(operation, tensor):
                    made = self._buffer(_KINDS[phase], tensor, phase, position, position)
                    made.layer = self._scopes.layer(operation)
                    by_tensor[tensor.ref()] = made
        self._mark_gradients(by_tensor)
        return list(by_tensor.values())

    def _mark_gradients(self, by_tensor: dict[Tensor, Buffer]) -> None:
        for weight, gradient in zip(self._update.weights, self._gradients, strict=True):
            sparse = isinstance(gradient, tf.IndexedSlices)
            for tensor in [gradient.values, gradient.indices] if sparse else [gradient]:
                buffer = None if tensor is None else by_tensor.get(root(tensor).ref())
                if buffer is not None and buffer.phase == "backward":
                    buffer.kind, buffer.layer = "weight_gradient", self._owners.get(id(weight))

    def _phase(self, position: int) -> str:
        return next(p for p, end in zip(_KINDS, self._bounds, strict=True) if position < end)

    def _buffer(self, kind: str, tensor: Any, phase: str, born: int, last: int) -> Buffer:
        shape, dtype = self._sizes.shape(tensor)
        buffer = Buffer(kind, shape, dtype.name, dtype.size, phase, born, last)
        buffer.operator = tensor.op.type if phase != "other" else None
        return buffer


def _is_static(tensor: Any) -> bool:
    return tensor.shape.is_fully_defined()
