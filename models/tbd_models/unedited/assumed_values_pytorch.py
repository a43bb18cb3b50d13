"""Values for a program that reads fake tensors.

Integers and booleans that follow from the program's data alone, such as masks, are computed. All
other values are stated constants: numbers are 1, conditions are false, and where a shape depends on
values, all elements are selected.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_flatten, tree_map_only, tree_unflatten
from torch.utils.weak import WeakIdKeyDictionary

_aten = torch.ops.aten
# Larger tensors of integers would take the memory and time that fake tensors save.
_MOST_ELEMENTS = 1 << 22
_UNINITIALIZED = {_aten.empty.memory_format, _aten.empty_strided.default, _aten.empty_like.default,
                  _aten.new_empty.default, _aten.new_empty_strided.default}  # fmt: skip


class AssumedValues:
    """Known values of fake tensors, and constants for the others."""

    def __init__(self) -> None:
        self._known: Any = WeakIdKeyDictionary()  # real tensors of fake ones
        self._inputs: Any = WeakIdKeyDictionary()  # weak references to real inputs
        self._passing: Any = WeakIdKeyDictionary()  # flags of a gradient scaler
        self.scalars = 0  # that the program read and that were constants
        self.shapes: dict[str, None] = {}  # operators whose shape was assumed

    def note(self, fake: Tensor, real: Tensor) -> None:
        """Know the values of an input, if it is one of integers and has the fake one's shape."""
        is_known = not real.dtype.is_floating_point and real.shape == fake.shape
        if is_known and real.numel() <= _MOST_ELEMENTS and real.layout is torch.strided:
            # A fake tensor lives as long as its real one, which this must not keep.
            self._inputs[fake] = weakref.ref(real)

    def scalar(self, fake: Tensor) -> Any:
        """Return the value of a tensor of one element."""
        known = fake.constant if isinstance(fake, FakeTensor) else None
        known = self._value(fake) if known is None else known
        if known is not None:
            with _disable_current_modes():
                return known.item()
        if fake in self._passing:
            return 0.0
        self.scalars += 1
        if fake.dtype is torch.bool:
            return False
        return 1.0 if fake.dtype.is_floating_point else 1

    def real(self, fake: Tensor) -> Tensor:
        """Return a real tensor in place of a fake one, for a copy to the host."""
        with _disable_current_modes():
            known = self._value(fake)
            if known is not None:
                return known
            self.scalars += fake.numel()
            return torch.full(fake.shape, fake.dtype is not torch.bool, dtype=fake.dtype)

    def result(self, function: Any, given: Sequence[Any]) -> Any:
        """Return the result of an operation whose shape depends on values, None for others."""
        if function is _aten.nonzero.default:
            return self._positions(given[0])
        if function is _aten.masked_select.default:
            shape = torch.broadcast_shapes(given[0].shape, given[1].shape)
            count = len(self._positions(given[1].expand(shape)))
            return torch.empty(count, dtype=given[0].dtype)
        if function is _aten._unique2.default:
            return self._unique(*given)
        return None

    def indices(self, function: Any, given: list[Any]) -> list[Any]:
        """Return the arguments of an operation with masks as indices."""
        if function is not _aten.index.Tensor:
            return given
        indices: list[Any] = []
        for index in given[1]:
            if isinstance(index, Tensor) and index.dtype in (torch.bool, torch.uint8):
                indices += self._positions(index).unbind(1)
            else:
                indices.append(index)
        return [given[0], indices, *given[2:]]

    def follow(self, function: Any, given: Any, results: Any) -> None:
        """Compute the values of integers that an operation makes of known ones."""
        if function is _aten._amp_foreach_non_finite_check_and_unscale_.default:
            self._passing[given[0][1]] = True
        if function._schema.is_mutable:
            self._forget(given)
            return
        flat, structure = tree_flatten(given)
        fakes = [value for value in flat if isinstance(value, Tensor)]
        made = [value for value in tree_flatten(results)[0] if isinstance(value, Tensor)]
        if (
            not made
            or function in _UNINITIALIZED
            or torch.Tag.nondeterministic_seeded in function.tags
            or any(t.dtype.is_floating_point or t.numel() > _MOST_ELEMENTS for t in made)
            or any(self._value(fake) is None for fake in fakes)
        ):
            return
        known = [self._value(v) if isinstance(v, Tensor) else v for v in flat]
        with _disable_current_modes(), torch.no_grad():
            args, kwargs = tree_unflatten(known, structure)
            computed = tree_flatten(function(*args, **kwargs))[0]
        for fake, real in zip(made, computed, strict=True):
            self._known[fake] = real

    def _forget(self, given: Any) -> None:
        changed: list[Tensor] = []
        tree_map_only(Tensor, changed.append, given)
        known = (self._known, self._inputs)
        storages = {
            t.untyped_storage()._cdata for t in changed if any(t in values for values in known)
        }
        for values in known if storages else ():
            for fake in [f for f in values if f.untyped_storage()._cdata in storages]:
                del values[fake]

    def _value(self, fake: Tensor) -> Tensor | None:
        found = self._known.get(fake)
        if found is None and fake in self._inputs:
            found = self._inputs[fake]()
        return found

    def _positions(self, mask: Tensor) -> Tensor:
        known = self._value(mask)
        if known is not None:
            with _disable_current_modes():
                real = known.nonzero()
            found = torch.empty(real.shape, dtype=torch.int64)
            self._known[found] = real
            return found
        self.shapes["nonzero"] = None
        return torch.empty((mask.numel(), mask.dim()), dtype=torch.int64)

    def _unique(
        self, of: Tensor, _sorted: bool = True, inverse: bool = False, counts: bool = False
    ) -> tuple[Tensor, ...]:
        known = self._value(of)
        if known is None:
            self.shapes["unique"] = None
            size = of.numel()
        else:
            with _disable_current_modes():
                size = known.unique().numel()
        return (
            torch.empty(size, dtype=of.dtype),
            torch.empty(of.shape if inverse else 0, dtype=torch.int64),
            torch.empty(size if counts else 0, dtype=torch.int64),
        )
