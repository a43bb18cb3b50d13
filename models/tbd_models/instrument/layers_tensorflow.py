"""Compute sizes and floating-point operations of a Keras model's layers from a step's graph.

The graph is traced, not executed: FLOP depend on shapes alone. Counted are convolutions and matrix
products (a multiply-add is 2). Recurrent layers are loops in the graph; for them, each weight
matrix counts once per step and sample, and twice as often backward.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any

import keras
import tensorflow as tf

from tbd_models.instrument.tensorflow import LayerMarks, layer_names

_PRECISIONS = {tf.float32: "fp32", tf.float16: "fp16", tf.bfloat16: "bf16"}
# Operations that forward values without computing.
_NO_WORK = frozenset(
    (
        *("Const", "Identity", "IdentityN", "NoOp", "Placeholder", "ReadVariableOp"),
        *("Shape", "ShapeN", "Size", "Rank", "Reshape", "ExpandDims", "Squeeze", "StopGradient"),
        *("StridedSlice", "Pack", "BroadcastGradientArgs"),
    )
)
_SHAPES = frozenset(("Shape", "ShapeN", "Size", "Rank"))
_LOOPS = (keras.layers.RNN, keras.layers.Bidirectional)
_BACKWARD = "layer_backward"


def measure(model: keras.Model, step: Callable[[], Any], batch_size: int) -> list[dict[str, Any]]:
    """Return the entries of layers.json in execution order.

    A layer is one that adds at least one operation outside its children to the graph. ``step``
    runs a forward and backward pass on ``batch_size`` samples and returns loss and gradients.
    """
    names = layer_names(model)
    owners = _Owners({name: layer for layer, name in names.items()})
    marks = LayerMarks(model, owners)
    try:
        graph = tf.function(step).get_concrete_function().graph
    finally:
        marks.remove()
    used = _used(graph)
    entries = _entries(names)
    order: dict[str, None] = {}
    for text, operation in owners.owned(graph.get_operations()):
        if operation in used and operation.type not in _NO_WORK:
            order.setdefault(text.partition(":")[2])
            _add(entries, text, _flop(operation), operation.outputs)
    for text, flop, outputs in owners.recurrent:
        _add(entries, text, flop, outputs)
    counted: set[int] = set()
    for text, tensors in owners.outputs:
        for tensor in tensors:
            # An output that an inner layer has produced counts only for that layer.
            if id(tensor) not in counted and tensor.op.type not in _NO_WORK:
                counted.add(id(tensor))
                size = _elements(tensor) * tensor.dtype.size
                entries[text.partition(":")[2]]["feature_map_bytes"] += size
    return [_per_sample(entries[name], batch_size) for name in order]


def merge_turns(turns: Iterable[tuple[int, list[dict[str, Any]]]]) -> list[dict[str, Any]]:
    """Return the entries of an iteration from (repetitions, entries) of its turns.

    FLOP add up. Feature maps of a turn are freed before the next begins, so the largest counts.
    """
    joint: dict[str, dict[str, Any]] = {}
    for times, entries in turns:
        for entry in entries:
            merged = joint.setdefault(
                entry["name"],
                entry | {"feature_map_bytes": 0, "forward_flop": 0.0, "backward_flop": 0.0},
            )
            merged["forward_flop"] += times * entry["forward_flop"]
            merged["backward_flop"] += times * entry["backward_flop"]
            merged["feature_map_bytes"] = max(
                merged["feature_map_bytes"], entry["feature_map_bytes"]
            )
            if "precision" in entry:
                merged["precision"] = entry["precision"]
    return list(joint.values())


def _used(graph: Any) -> set[Any]:
    # Operations on which no output depends are pruned and never run.
    waiting = list(graph.outputs)
    seen = {id(tensor) for tensor in waiting}
    used = set()
    while waiting:
        tensor = waiting.pop()
        used.add(tensor.op)
        for given in _needed(tensor):
            if id(given) not in seen:
                seen.add(id(given))
                waiting.append(given)
    return used


def _needed(tensor: Any) -> Iterable[Any]:
    # Leave out inputs that affect only other outputs of the operation.
    if tensor.op.type in _SHAPES:
        return ()  # static shapes do not need the values
    if tensor.op.type == "IdentityN":
        return (tensor.op.inputs[tensor.value_index],)
    return tensor.op.inputs


class _Owners:
    # Records which layer was being traced when an operation was added to the graph; LayerMarks
    # calls it like GraphMarks. `recurrent` has (mark, FLOP, tensors of the layer's type).

    def __init__(self, layers: dict[str, keras.layers.Layer]) -> None:
        self._layers = layers
        self._running: list[str] = []
        self._changes: list[tuple[int, str | None]] = []
        self._steps: dict[str, int] = {}
        self.recurrent: list[tuple[str, int, list[Any]]] = []
        self.outputs: list[tuple[str, list[Any]]] = []

    def push(self, text: str, after: Iterable[Any] = ()) -> list[Any]:
        self._running.append(text)
        self._note()
        direction, _, name = text.partition(":")
        layer = self._layers[name]
        if isinstance(layer, _LOOPS):
            given = list(after)
            if direction != _BACKWARD:
                self._steps[name] = math.prod(given[0].shape[:2])
            # The biases of a GRU have two axes as well.
            matrices = [w for w in layer.weights if "kernel" in w.name]
            elements = sum(math.prod(w.shape) for w in matrices)
            flop = 2 * self._steps[name] * elements * (2 if direction == _BACKWARD else 1)
            self.recurrent.append((text, flop, given[:1]))
        return []

    def pop(self, after: Iterable[Any] = ()) -> list[Any]:
        text = self._running.pop()
        if not text.startswith(_BACKWARD):
            self.outputs.append((text, [tensor for tensor in after if tf.is_tensor(tensor)]))
        self._note()
        return []

    def _note(self) -> None:
        count = len(tf.compat.v1.get_default_graph().get_operations())
        self._changes.append((count, self._running[-1] if self._running else None))

    def owned(self, operations: list[Any]) -> Iterator[tuple[str, Any]]:
        # Yields (mark of the innermost layer, operation).
        for (first, text), (last, _) in pairwise([*self._changes, (len(operations), None)]):
            if text is not None:
                yield from ((text, operation) for operation in operations[first:last])


def _entries(names: dict[keras.layers.Layer, str]) -> dict[str, dict[str, Any]]:
    # A weight shared by several layers counts for the first.
    counted: set[int] = set()
    entries = {}
    for layer, name in names.items():
        weights = layer.trainable_weights if isinstance(layer, _LOOPS) else _own_weights(layer)
        own = [w for w in weights if id(w) not in counted]
        counted.update(map(id, own))
        size = sum(math.prod(w.shape) * tf.as_dtype(w.dtype).size for w in own)
        entries[name] = {
            "name": name,
            "type": _type(layer),
            "parameters": sum(math.prod(w.shape) for w in own),
            "weight_bytes": size,
            "gradient_bytes": size,
            "feature_map_bytes": 0,
            "forward_flop": 0,
            "backward_flop": 0,
        }
    return entries


def _type(layer: keras.layers.Layer) -> str:
    # A bidirectional layer has the type of the layer that it wraps.
    each = layer.forward_layer if isinstance(layer, keras.layers.Bidirectional) else layer
    return type(each).__name__


def _own_weights(layer: keras.layers.Layer) -> list[keras.Variable]:
    inside = {
        id(w) for part in layer._flatten_layers(include_self=False) for w in part.trainable_weights
    }
    return [w for w in layer.trainable_weights if id(w) not in inside]


def _add(entries: dict[str, dict[str, Any]], text: str, flop: int, outputs: Any) -> None:
    if flop:
        direction, _, name = text.partition(":")
        entries[name]["backward_flop" if direction == _BACKWARD else "forward_flop"] += flop
        if (precision := _PRECISIONS.get(outputs[0].dtype)) is not None:
            entries[name]["precision"] = precision


def _per_sample(entry: dict[str, Any], batch_size: int) -> dict[str, Any]:
    entry["feature_map_bytes"] //= batch_size
    entry["forward_flop"] /= batch_size
    entry["backward_flop"] /= batch_size
    return entry


def _elements(tensor: Any) -> int:
    return math.prod(tensor.shape.as_list())


def _flop(operation: Any) -> int:
    formula = _FORMULAS.get(operation.type)
    return formula(operation) if formula else 0


def _convolution(operation: Any) -> int:
    return _convolution_flop(operation.outputs[0], operation.inputs[1].shape)


def _to_input(operation: Any) -> int:
    return _convolution_flop(operation.inputs[2], operation.inputs[1].shape)


def _to_filter(operation: Any) -> int:
    return _convolution_flop(operation.inputs[2], operation.outputs[0].shape)


def _convolution_flop(output: Any, filters: Any) -> int:
    # Each output value is a product over (H, W, C) of the filters.
    return 2 * _elements(output) * math.prod(filters.as_list()[:3])


def _depthwise(operation: Any) -> int:
    return 2 * _elements(operation.outputs[0]) * math.prod(operation.inputs[1].shape[:2])


def _depthwise_to_input(operation: Any) -> int:
    return 2 * _elements(operation.inputs[2]) * math.prod(operation.inputs[1].shape[:2])


def _depthwise_to_filter(operation: Any) -> int:
    return 2 * _elements(operation.inputs[2]) * math.prod(operation.outputs[0].shape[:2])


def _matrix_product(operation: Any) -> int:
    attribute = "transpose_a" if operation.type == "MatMul" else "adj_x"
    inner = operation.inputs[0].shape[-2 if operation.get_attr(attribute) else -1]
    return 2 * _elements(operation.outputs[0]) * int(inner)


def _einsum(operation: Any) -> int:
    # A product of two tensors runs over all axes once, summed or not.
    if len(operation.inputs) != 2:
        return 0
    terms = operation.get_attr("equation").decode().partition("->")[0].split(",")
    sizes: dict[str, int] = {}
    for term, tensor in zip(terms, operation.inputs, strict=True):
        shape = tensor.shape.as_list()
        letters = term.replace("...", "")
        # Axes of an ellipsis align from the last, like broadcasting.
        hidden = [str(n) for n in range(len(shape) - len(letters), 0, -1)]
        head, dots, tail = term.partition("...")
        axes = [*head, *(hidden if dots else []), *tail]
        for axis, size in zip(axes, shape, strict=True):
            sizes[axis] = max(sizes.get(axis, 1), size)
    return 2 * math.prod(sizes.values())


_FORMULAS: dict[str, Callable[[Any], int]] = {
    "Conv2D": _convolution,
    "Conv2DBackpropInput": _to_input,
    "Conv2DBackpropFilter": _to_filter,
    "DepthwiseConv2dNative": _depthwise,
    "DepthwiseConv2dNativeBackpropInput": _depthwise_to_input,
    "DepthwiseConv2dNativeBackpropFilter": _depthwise_to_filter,
    "MatMul": _matrix_product,
    "BatchMatMulV2": _matrix_product,
    "BatchMatMulV3": _matrix_product,
    "Einsum": _einsum,
}
