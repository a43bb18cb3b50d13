"""Emit forward and backward ranges around each layer of a Gluon model.

Gluon's hooks cannot replace inputs and outputs, so ``forward`` of each block is wrapped. Identity
functions at the inputs and outputs of a block mark its backward pass: the one at its outputs runs
before the block's own operations, the one at its inputs after them. MXNet runs the backward pass
by dependencies, branch after branch, so the ranges nest.

This requires the naive engine (``MXNET_ENGINE_TYPE=NaiveEngine``) and a model that is not
hybridised: the default engine runs operations later on other threads, and a hybridised model does
not call its blocks.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import mxnet as mx
from mxnet import autograd
from mxnet.base import _LIB, MXCallbackList, NDArrayHandle, c_handle_array, check_call
from mxnet.gluon import Block, nn

from tbd_models.instrument.marks import Marks

# MXNet's request to add to an existing gradient; 0 skips the gradient, other values overwrite.
_ADD = 3


def layer_names(model: Block) -> dict[Block, str]:
    """Return the name of each block: its path, or the class name for the model itself."""
    names = {model: type(model).__name__}

    def walk(block: Block, prefix: str) -> None:
        for key, child in block._children.items():
            if child not in names:
                names[child] = f"{prefix}{key}"
                walk(child, f"{names[child]}.")

    walk(model, "")
    return names


def parameter_layers(model: Block) -> dict[str, str]:
    """Return the layer of each parameter, by its name; a shared one belongs to the first."""
    layers: dict[str, str] = {}
    for block, layer in layer_names(model).items():
        for parameter in block._reg_params.values():
            layers.setdefault(parameter.name, layer)
    return layers


class LayerMarks:
    """Mark the layers of a model until ``remove``.

    If its inputs need no gradient, a layer's backward range ends with its parameters' gradients.
    Not marked backward are blocks with neither, pure containers (``HybridSequential``), and the
    summation of gradients of an array or parameter that several layers use.
    """

    def __init__(self, model: Block, marks: Marks) -> None:
        self._marks = marks
        # Layers whose backward pass is running, innermost last.
        self._open: list[str] = []
        self._blocks = layer_names(model)
        for block, name in self._blocks.items():
            block.forward = self._wrapped(block, name)

    def remove(self) -> None:
        """Unwrap all blocks."""
        for block in self._blocks:
            del block.forward

    def end_backward(self) -> None:
        """Close ranges that a failed backward pass left open."""
        while self._open:
            self._close()

    def _wrapped(self, block: Block, name: str) -> Callable[..., Any]:
        forward = block.forward
        enter = _Identity(_nothing, lambda: self._backward_ends(name))
        leave = _Identity(lambda: self._backward_begins(name), _nothing)
        backward = not isinstance(block, (nn.Sequential, nn.HybridSequential))

        def marked_forward(*arguments: Any) -> Any:
            self._marks.push(f"layer:{name}")
            try:
                if not (backward and autograd.is_recording()):
                    return forward(*arguments)
                if any(map(_needs_gradient, _arrays(arguments))):
                    return _passed(forward(*_passed(arguments, enter)), leave)
                with _parameters_passed(block, enter) as passed:
                    output = forward(*arguments)
                return _passed(output, leave) if passed else output
            finally:
                self._marks.pop()

        return marked_forward

    def _backward_begins(self, name: str) -> None:
        self._open.append(name)
        self._marks.push(f"layer_backward:{name}")

    def _backward_ends(self, name: str) -> None:
        while name in self._open:
            self._close()

    def _close(self) -> None:
        self._open.pop()
        self._marks.pop()


class _Identity:
    # An identity that calls `before` and `after` around the hand-over of gradients. It does what
    # autograd.Function does in a third of the time, and respects MXNet's gradient requests.

    # MXNet calls back while a recorded graph exists, and reports no end; so never free callbacks.
    _alive: ClassVar[list[_Identity]] = []

    def __init__(self, before: Callable[[], None], after: Callable[[], None]) -> None:
        self._before, self._after = before, after
        self._functions = [
            autograd.Function._bwd_functype(self._backward),
            autograd.Function._del_functype(lambda _: True),
        ]
        plain = ctypes.CFUNCTYPE(ctypes.c_int)
        count = len(self._functions)
        self._callbacks = MXCallbackList(
            ctypes.c_int(count),
            (plain * count)(*(ctypes.cast(function, plain) for function in self._functions)),
            (ctypes.c_void_p * count)(),
        )
        self._alive.append(self)

    def __call__(self, arrays: list[Any]) -> list[Any]:
        # detach() shares the data: nothing is copied.
        outputs = [array.detach() for array in arrays]
        check_call(
            _LIB.MXCustomFunctionRecord(
                *(ctypes.c_int(len(arrays)), c_handle_array(arrays)),
                *(ctypes.c_int(len(outputs)), c_handle_array(outputs)),
                ctypes.byref(self._callbacks),
            )
        )
        return outputs

    def _backward(
        self, count: int, _inputs: int, handles: Any, requests: Any, _training: int, _: Any
    ) -> bool:
        # Handles: `count` incoming gradients, then as many arrays to write them to.
        self._before()
        arrays = [mx.nd.NDArray(ctypes.cast(handles[n], NDArrayHandle)) for n in range(2 * count)]
        for request, gradient, target in zip(
            requests[:count], arrays[:count], arrays[count:], strict=True
        ):
            if request == _ADD:
                mx.nd.elemwise_add(target, gradient, out=target)
            elif request:
                gradient.copyto(target)
        self._after()
        return True


def _passed(value: Any, identity: _Identity) -> Any:
    # Pass all arrays that need a gradient through the identity at once; keep the nesting.
    passing = {id(array): array for array in _arrays(value) if _needs_gradient(array)}
    if not passing:
        return value
    outputs = identity(list(passing.values()))
    return _replaced(value, dict(zip(passing, outputs, strict=True)))


@contextmanager
def _parameters_passed(block: Block, identity: _Identity) -> Iterator[bool]:
    # The same for a block's own trained parameters; yields whether it has any.
    own = [p for p in block._reg_params.values() if p.grad_req != "null"]
    plain = [parameter._data for parameter in own]
    if own:
        for parameter, output in zip(own, identity([p.data() for p in own]), strict=True):
            parameter._data = [output]
    try:
        yield bool(own)
    finally:
        for parameter, data in zip(own, plain, strict=True):
            parameter._data = data


def _arrays(value: Any) -> Iterator[Any]:
    if isinstance(value, mx.nd.NDArray):
        yield value
    elif isinstance(value, (list, tuple)):
        for entry in value:
            yield from _arrays(entry)


def _replaced(value: Any, replaced: dict[int, Any]) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(_replaced(entry, replaced) for entry in value)
    return replaced.get(id(value), value)


def _needs_gradient(array: Any) -> bool:
    try:
        autograd.get_symbol(array)
    except mx.MXNetError:
        return False  # not part of the recorded graph
    return True


def _nothing() -> None:
    pass
