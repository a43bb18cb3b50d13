"""Emit forward and backward ranges around each layer of a PyTorch model.

Module hooks mark the forward pass. The backward pass is marked at the autograd nodes: autograd
numbers nodes as it creates them, so the module that ran when a number was assigned owns the node.
Unlike module backward hooks, this supports in-place operations, outputs with several consumers and
inputs without gradients, and each range lasts exactly as long as its node.
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from tbd_models.instrument.marks import Marks


def layer_names(model: nn.Module) -> dict[nn.Module, str]:
    """Return the name of each module: its path, or the class name for the model itself."""
    return {module: path or type(model).__name__ for path, module in model.named_modules()}


class LayerMarks:
    """Mark the layers of a model until ``remove``.

    Not marked are layers inside ``torch.compile`` and TorchScript, which do not call modules, and
    the accumulation into ``.grad``. If a node raises an exception its range stays open, because
    autograd then skips the node's hooks.
    """

    def __init__(self, model: nn.Module, marks: Marks) -> None:
        self._marks = marks
        self._running: list[str] = []
        # Layer that was running from each autograd sequence number on, in the outermost call.
        self._numbers: list[int] = []
        self._owners: list[str | None] = []
        self._node_hooks: dict[str, tuple[Callable[..., None], Callable[..., None]]] = {}
        self._handles: list[Any] = []
        self._names = layer_names(model)
        for name in self._names.values():
            self._node_hooks[name] = self._around_node(name)
        self.add()

    def add(self) -> None:
        """Add the hooks, if they were removed."""
        if self._handles:
            return
        for module, name in self._names.items():
            self._handles += [
                module.register_forward_pre_hook(self._entering(name)),
                module.register_forward_hook(self._leave, always_call=True),
            ]

    def remove(self) -> None:
        """Remove all hooks."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _entering(self, name: str) -> Callable[..., None]:
        text = f"layer:{name}"

        def enter(_module: nn.Module, _inputs: Any) -> None:
            if not self._running:
                self._numbers.clear()
                self._owners.clear()
            self._running.append(name)
            self._note_owner()
            self._marks.push(text)

        return enter

    def _leave(self, _module: nn.Module, _inputs: Any, outputs: Any) -> None:
        self._marks.pop()
        self._running.pop()
        self._note_owner()
        if not self._running and torch.is_grad_enabled():
            self._mark_nodes(outputs)

    def _note_owner(self) -> None:
        self._numbers.append(torch._C._autograd._get_sequence_nr())
        self._owners.append(self._running[-1] if self._running else None)

    def _around_node(self, name: str) -> tuple[Callable[..., None], Callable[..., None]]:
        text = f"layer_backward:{name}"

        def begin(_gradients: Any) -> None:
            self._marks.push(text)

        def end(_input_gradients: Any, _output_gradients: Any) -> None:
            self._marks.pop()

        return begin, end

    def _mark_nodes(self, outputs: Any) -> None:
        # Walk the graph from the outputs back to nodes that precede this call.
        first = self._numbers[0]
        waiting = [tensor.grad_fn for tensor in tensors(outputs) if tensor.grad_fn is not None]
        seen = set(waiting)
        while waiting:
            node = waiting.pop()
            number = node._sequence_nr()
            if number < first:
                continue  # created before the call
            # Without an owner: gradient accumulation, whose number is the maximum, and nodes
            # created later, as by in-place changes of a view.
            owner = self._owners[bisect_right(self._numbers, number) - 1]
            if owner is not None:
                begin, end = self._node_hooks[owner]
                node.register_prehook(begin)
                node.register_hook(end)
            for following, _ in node.next_functions:
                if following is not None and following not in seen:
                    seen.add(following)
                    waiting.append(following)


def tensors(value: Any) -> Iterator[Tensor]:
    """Yield the tensors in nested tuples, lists, mappings and data classes."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for entry in value.values():
            yield from tensors(entry)
    elif isinstance(value, (list, tuple, set)):
        for entry in value:
            yield from tensors(entry)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from tensors(getattr(value, field.name))
