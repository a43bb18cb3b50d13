"""Run the training of a program on fake tensors, and everything else on real ones.

Data loading and set-up stay real. Operations of the training step, and all that read their
results, run on fake tensors, which have shapes but no memory. A real tensor that such an operation
reads is represented by one fake tensor for as long as it lives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from weakref import WeakValueDictionary

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_map_only
from torch.utils.weak import WeakIdKeyDictionary

from tbd_models.instrument.memory_storages_pytorch import FORWARD, OTHER, SETUP, Place
from tbd_models.unedited.assumed_values_pytorch import AssumedValues

# A view of a smaller part of its storage is a slice of a data set, which stays on the host.
_LEAST_PART = 0.25


class FakeTraining:
    """Fake tensors in place of the real ones of a training step, until the program ends.

    Args:
        place: phase of the training; operations on real tensors alone are computed if they are
            neither in a layer, nor in the backward pass or the optimizer.
        resized: gets a real input, and returns its shape with the batch that is asked for.
        noted: gets each operation with its arguments and results.
    """

    def __init__(
        self,
        place: Place,
        resized: Callable[[Tensor], torch.Size],
        noted: Callable[[Any, Any, Any, Any], None],
    ) -> None:
        self._place = place
        self.noted = noted
        self._resized = resized
        self._mode = FakeTensorMode(allow_non_fake_inputs=True)
        self._fakes: Any = WeakIdKeyDictionary()  # of real tensors
        self._parts: Any = WeakValueDictionary()  # fakes of slices and resized inputs
        self.values = AssumedValues()
        self._is_paused = False  # while a loader makes a batch
        self._modes = ExitStack()

    def start(self) -> None:
        """Let fake tensors be made; ``convert`` begins to act with ``finish_start``."""
        self._modes.enter_context(self._mode)

    def finish_start(self) -> None:
        """Send all operations through this object; call it when all other modes are on."""
        self._modes.enter_context(_Boundary(self))
        self._modes.enter_context(_Program(self))

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Compute operations on real tensors in the block."""
        before, self._is_paused = self._is_paused, True
        try:
            yield
        finally:
            self._is_paused = before

    def keep_state(self, tensor: Tensor) -> None:
        """Represent a parameter or buffer; views of one storage share its fake storage."""
        if not isinstance(tensor, FakeTensor):
            self._fakes[tensor] = self._converted(tensor)

    def fake(self, tensor: Tensor) -> Tensor:
        """Return the fake tensor of a tensor."""
        if isinstance(tensor, FakeTensor):
            return tensor
        known = self._fakes.get(tensor)
        if known is None:
            known = self._fakes[tensor] = self._input(tensor)
            self.values.note(known, tensor)
        return known

    def with_batch(self, arguments: Any) -> Any:
        """Return arguments with other fake inputs where the batch gets another size."""

        def changed(tensor: Tensor) -> Tensor:
            is_input = not (isinstance(tensor, FakeTensor) or tensor.requires_grad)
            is_resized = is_input and self._resized(tensor) != tensor.shape
            return self.fake(tensor) if is_resized else tensor

        return tree_map_only(Tensor, changed, arguments)

    def is_computed(self, arguments: Any) -> bool:
        """Return True if an operation with these arguments is not part of the training step."""
        is_outside = self._place.base in (OTHER, SETUP) or (
            self._place.base == FORWARD and not self._place.layers
        )
        if not self._is_paused and not is_outside:
            return False
        found: list[Tensor] = []
        tree_map_only(Tensor, found.append, arguments)
        return not any(isinstance(t, FakeTensor) or t in self._fakes for t in found)

    def _converted(self, tensor: Tensor) -> Tensor:
        with _disable_current_modes(), torch.no_grad():
            plain = tensor.detach()
        return self._mode.fake_tensor_converter.from_real_tensor(self._mode, plain)

    def _input(self, tensor: Tensor) -> Tensor:
        shape = self._resized(tensor)
        if tensor.layout is not torch.strided:
            return self._converted(tensor)
        whole = tensor.untyped_storage().nbytes()
        is_slice = tensor.numel() * tensor.itemsize < _LEAST_PART * whole
        if shape == tensor.shape and not is_slice:
            return self._converted(tensor)
        # Autograd saves other objects of the same tensor.
        place = (tensor.untyped_storage()._cdata, tensor.storage_offset(), tensor.shape)
        known = self._parts.get(place)
        if known is None:
            with _disable_current_modes(), self._mode:
                known = self._parts[place] = torch.empty(shape, dtype=tensor.dtype)
        return known


class _Boundary(TorchDispatchMode):
    def __init__(self, training: FakeTraining) -> None:
        super().__init__()
        self._training = training

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self._training.is_computed((args, kwargs)):
            with _disable_current_modes():
                return func(*args, **kwargs)
        if func in _LIFTS:  # fake tensors know these constants
            return func(*args, **kwargs)
        values = self._training.values
        given, named = tree_map_only(Tensor, self._training.fake, (args, kwargs))
        if func in _SCALARS:
            return values.scalar(given[0])
        assumed = values.result(func, given)
        if assumed is not None:
            return assumed
        results = func(*values.indices(func, list(given)), **named)
        values.follow(func, (given, named), results)
        self._training.noted(func, given, named, results)
        return results


class _Program(TorchFunctionMode):
    # Calls of the program that read values or shapes past the dispatcher.

    def __init__(self, training: FakeTraining) -> None:
        super().__init__()
        self._training = training
        self._values = training.values

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _READ_VALUES and isinstance(args[0], FakeTensor):
            with _disable_current_modes():
                return func(self._values.real(args[0]), *args[1:], **kwargs)
        if func is Tensor.__deepcopy__ and isinstance(args[0], FakeTensor):
            copied = args[0].detach().clone().requires_grad_(args[0].requires_grad)
            return args[1].setdefault(id(args[0]), copied)
        if func is torch.equal:  # ends loops that run until nothing changes
            return True
        if any(isinstance(one, FakeTensor) for one in args):
            args, kwargs = self._training.with_batch((args, kwargs))
        return func(*args, **kwargs)


_LIFTS = (torch.ops.aten.lift_fresh.default, torch.ops.aten.lift_fresh_copy.default)
_SCALARS = (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.item.default)
_READ_VALUES = (Tensor.numpy, Tensor.tolist, Tensor.__array__)
