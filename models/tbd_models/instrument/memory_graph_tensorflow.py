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
            tensor = operation.inputs[number]
        elif operation.type in _LOOPS and _is_unchanged(operation, tensor.value_index):
            tensor = operation.inputs[tensor.value_index]
        else:
            return tensor


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


def _is_unchanged(loop: Any, number: int) -> bool:
    body = _body(loop)
    return body.outputs[number].op.type in _VIEWS | _WITHOUT_MEMORY and (
        root(body.outputs[number]) is body.inputs[number]
    )


def _list_item(tensor: Any) -> tuple[int, Any] | None:
    # Returns (length, a tensor like each element) of a list of tensors. A list that a loop fills
    # counts as made by the loop; its length is the number that it was created for.
    operation = tensor.op
    if operation.type == "TensorListFromTensor":
        whole = operation.inputs[0]
        return int(whole.shape[0]), _Item(whole.shape[1:], whole.dtype)
    if operation.type not in _LOOPS or tensor.dtype != tf.variant:
        return None
    filled = root(_body(operation).outputs[tensor.value_index]).op
    length = _length(root(operation.inputs[tensor.value_index]).op)
    if filled.type not in ("TensorListPushBack", "TensorListSetItem") or length is None:
        return None
    item = filled.inputs[1 if filled.type == "TensorListPushBack" else 2]
    if item.dtype in _UNSIZED or not item.shape.is_fully_defined():
        return None
    return length, item


def _length(operation: Any) -> int | None:
    # Both operations take the length as their second input; -1 is unlimited.
    if operation.type not in ("EmptyTensorList", "TensorListReserve"):
        return None
    length = tf.get_static_value(operation.inputs[1])
    return int(length) if length is not None and length >= 0 else None


class _Item:
    def __init__(self, shape: Any, dtype: Any) -> None:
        self.shape, self.dtype = shape, dtype
