"""Determine which tensors of a TensorFlow graph have their own memory, and their shapes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import tensorflow as tf
from tensorflow.python.ops import while_v2

Tensor: TypeAlias = Any  # hashable reference of a tensor

# Operations whose output is the buffer of their input.
_VIEWS = frozenset(
    (
        *("Identity", "IdentityN", "StopGradient", "PreventGradient", "EnsureShape"),
        *("Reshape", "Squeeze", "ExpandDims"),
    )
)
# Operations whose output lies in a variable or in the graph itself.
_WITHOUT_MEMORY = frozenset(("ReadVariableOp", "Const", "Placeholder"))
_LOOPS = frozenset(("While", "StatelessWhile"))
# Operations that add an element to a list, and the number of the input with the element.
_FILLING = {"TensorListPushBack": 1, "TensorListSetItem": 2}
_UNSIZED = (tf.resource, tf.variant, tf.string)


def is_sized(tensor: Any) -> bool:
    """Return True for a tensor of numbers."""
    return tensor.dtype not in _UNSIZED


def root(tensor: Any) -> Any:
    """Return the tensor whose buffer a tensor shares."""
    while True:
        operation = tensor.op
        if operation.type in _VIEWS:
            number = tensor.value_index if operation.type == "IdentityN" else 0
            source = operation.inputs[number]
        elif operation.type in _LOOPS:
            source = _loop_source(operation, tensor.value_index)
        else:
            return tensor
        if source is tensor:
            return tensor
        tensor = source


class Sizes:
    """Shapes of tensors; ``measured`` maps names to shapes that are open in the graph."""

    def __init__(self, measured: Mapping[str, Any]) -> None:
        self._measured = {name: tuple(map(int, shape)) for name, shape in measured.items()}

    def is_made_by(self, operation: Any, tensor: Any) -> bool:
        """Return True if an operation allocates memory for its output."""
        if operation.type in _WITHOUT_MEMORY or root(tensor) is not tensor:
            return False
        return is_sized(tensor) or _list_item(tensor) is not None

    def shape(self, tensor: Any) -> tuple[tuple[int, ...], Any]:
        """Return shape and data type of a tensor, or of a list of tensors as one."""
        if not is_sized(tensor):
            steps, item = _list_item(tensor) or (0, tensor)
            return (steps, *item.shape.as_list()), item.dtype
        known = self._measured.get(tensor.name)
        return tuple(tensor.shape) if known is None else known, tensor.dtype


def _body(loop: Any) -> Any:
    return while_v2._get_graph(loop, "body", "_body_graph")


def _loop_source(loop: Any, number: int) -> Any:
    # Returns the tensor that holds the memory of a loop's output: the output itself, an input that
    # the loop passes on, or the longest list with the same elements, as lists hold references.
    body, output = _body(loop), loop.outputs[number]
    if root(body.outputs[number]) is body.inputs[number]:
        return loop.inputs[number]
    item = _element(loop, number)
    if item is None:
        return output
    if item.graph is loop.graph:
        return item
    same = [n for n, each in enumerate(loop.outputs) if n == number or _element(loop, n) is item]
    return loop.outputs[max(same, key=lambda other: _list_length(loop, other) or 0)]


def _element(loop: Any, number: int) -> Any:
    # Returns the tensor of the body that becomes the next element of a list, or the list outside
    # the loop that already holds it, or None if the loop does not extend a list.
    body = _body(loop)
    filling = root(body.outputs[number]).op
    if loop.outputs[number].dtype != tf.variant or filling.type not in _FILLING:
        return None
    item = root(filling.inputs[_FILLING[filling.type]])
    if (place := _index(body.inputs, item)) is not None:
        # A value of the previous step, unless it is the same in all steps.
        passed = root(body.outputs[place])
        return loop.inputs[place] if passed is item else passed
    if item.op.type == "TensorListGetItem":
        place = _index(body.inputs, root(item.op.inputs[0]))
        if place is not None and root(body.outputs[place]) is body.inputs[place]:
            return loop.inputs[place]
    return item


def _index(tensors: Any, tensor: Any) -> int | None:
    return next((place for place, each in enumerate(tensors) if each is tensor), None)


def _list_item(tensor: Any) -> tuple[int, Any] | None:
    # Returns (length, a tensor like each element) of a list of tensors with separate memory. A list
    # that a loop fills counts as made by the loop.
    operation = tensor.op
    if operation.type == "TensorListFromTensor":
        whole = operation.inputs[0]
        return int(whole.shape[0]), _Item(whole.shape[1:], whole.dtype)
    item = _element(operation, tensor.value_index) if operation.type in _LOOPS else None
    if item is None or item.dtype in _UNSIZED or item.op.type in _WITHOUT_MEMORY:
        return None
    length = _list_length(operation, tensor.value_index)
    return None if length is None or not item.shape.is_fully_defined() else (length, item)


def _list_length(loop: Any, number: int) -> int | None:
    # A list that grows gets an element per step. Gradients create it without a known length, but
    # recurrent layers also read or write a list with an element for each step.
    own = _length(root(loop.inputs[number]).op)
    if own is not None:
        return own
    lengths = [_length(root(tensor).op) for tensor in loop.inputs if tensor.dtype == tf.variant]
    return max((length for length in lengths if length is not None), default=None)


def _length(operation: Any) -> int | None:
    if operation.type == "TensorListFromTensor":
        return int(operation.inputs[0].shape[0])
    if operation.type not in ("EmptyTensorList", "TensorListReserve"):
        return None
    length = tf.get_static_value(operation.inputs[1])
    return int(length) if length is not None and length >= 0 else None


class _Item:
    def __init__(self, shape: Any, dtype: Any) -> None:
        self.shape, self.dtype = shape, dtype
