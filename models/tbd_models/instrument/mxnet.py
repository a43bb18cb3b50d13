"""Forward and backward ranges around every layer of a Gluon model.

Gluon's hooks may not change what passes through them, so ``forward`` of every block is wrapped.
The backward pass is marked by identities on what goes into a block and on what comes out of it:
the backward pass runs the one behind a block before the block's own operations, and the one in
front of it after them. MXNet orders the backward pass by what each gradient needs, branch after
branch, so the ranges nest.

That holds for the naive engine (``MXNET_ENGINE_TYPE=NaiveEngine``) and models that are not
hybridised. The default engine runs operations later and elsewhere; hybridised models run no blocks.
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

# MXNet's request to add a gradient to what is there; 0 is that for none, others are to write it.
_ADD = 3


def layer_names(model: Block) -> dict[Block, str]:
    """Return the name of every block: its path, and for the model itself its class."""
    names = {model: type(model).__name__}

    def walk(block: Block, prefix: str) -> None:
        for key, child in block._children.items():
            if child not in names:
                names[child] = f"{prefix}{key}"
                walk(child, f"{names[child]}.")

    walk(model, "")
    return names


class LayerMarks:
    """Marks the layers of a model until it is removed.

    The backward pass of a layer whose inputs need no gradient ends with the gradients of its
    parameters. Not marked there are blocks that have neither, and those that only call others in
    turn (``HybridSequential``); gradients of one array or parameter that several layers use are
    added up outside the layers.
    """

    def __init__(self, model: Block, marks: Marks) -> None:
        self._marks = marks
        # Names of the layers whose backward pass runs, the innermost last.
        self._open: list[str] = []
        self._blocks = layer_names(model)
        for block, name in self._blocks.items():
            block.forward = self._wrapped(block, name)

    def remove(self) -> None:
        """Take all marks off the model."""
        for block in self._blocks:
            del block.forward

    def end_backward(self) -> None:
        """End what a backward pass that failed left open."""
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
    """Passes arrays through, and tells when the backward pass hands their gradients on.

    What ``autograd.Function`` does, at a third of its time, and handing on all gradients where
    MXNet wants some of them alone.

    Args:
        before: called before gradients are handed on.
        after: called after it.
    """

    # MXNet calls back as long as a recorded graph lives, which nobody knows.
    _kept: ClassVar[list[_Identity]] = []

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
        self._kept.append(self)

    def __call__(self, arrays: list[Any]) -> list[Any]:
        """Return the arrays, without copying them."""
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
        """Hand ``count`` gradients on: the first half of the handles to the second."""
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
    """Return nested arrays, those that need a gradient passed through an identity."""
    passing = {id(array): array for array in _arrays(value) if _needs_gradient(array)}
    if not passing:
        return value
    outputs = identity(list(passing.values()))
    return _replaced(value, dict(zip(passing, outputs, strict=True)))


@contextmanager
def _parameters_passed(block: Block, identity: _Identity) -> Iterator[bool]:
    """Pass a block's own trained parameters through an identity; tell whether there are any."""
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
        return False  # no part of what was recorded
    return True


def _nothing() -> None:
    pass
