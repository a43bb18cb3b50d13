"""Measure sizes and floating-point operations of a PyTorch model's layers in one training step."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import conv_flop_count, flop_registry, sdpa_flop_count

from tbd_models.instrument.layer import Layer
from tbd_models.instrument.pytorch import LayerMarks, layer_names, tensors

_BACKWARD = "layer_backward"
_PRECISIONS = {torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16"}


class Measurement:
    """Measure the layers of a model between ``begin`` and ``end``: one forward and backward pass.

    A layer is a module that runs at least one operation outside its children; its sizes exclude
    theirs. Counted are convolutions and matrix products as by ``torch.utils.flop_counter`` (a
    multiply-add is 2), fused recurrent layers and fused attention, causal attention at half of full
    attention. What the backward pass computes again (fused attention, activation checkpointing) is
    not counted. Meta tensors work too.
    """

    def __init__(self, model: nn.Module) -> None:
        self._counter = _Counter(model)
        self._counting = ExitStack()
        self._marks = LayerMarks(model, self._counter)
        names = self._counter.names
        self._hooks = [m.register_forward_hook(self._counter.count_outputs) for m in names]

    def begin(self) -> None:
        """Start counting on the calling thread and in the backward pass that it starts."""
        self._counting.enter_context(_Operations(self._counter))

    def end(self) -> list[Layer]:
        """Stop counting and return the layers in execution order."""
        self._counting.close()
        self._marks.remove()
        for hook in self._hooks:
            hook.remove()
        layers = self._counter.layers
        return [layers[name] for name in self._counter.order if layers[name].ran]


def measure(model: nn.Module, step: Callable[[], object]) -> list[Layer]:
    """Return a model's layers, measured while ``step`` runs it forward and backward once."""
    measurement = Measurement(model)
    measurement.begin()
    try:
        step()
    finally:
        layers = measurement.end()
    return layers


class _Operations(TorchDispatchMode):
    def __init__(self, counter: _Counter) -> None:
        super().__init__()
        self._counter = counter

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if not func.is_view:  # views do no work and own no storage
            self._counter.count(func, args, kwargs or {}, out)
        return out


class _Counter:
    # LayerMarks calls push and pop of this class, which thereby knows the running layer.

    def __init__(self, model: nn.Module) -> None:
        self.names = layer_names(model)
        # A parameter shared by several modules counts for the first.
        counted: set[nn.Parameter] = set()
        self.layers = {}
        for module, name in self.names.items():
            own = [p for p in module.parameters(recurse=False) if p not in counted]
            counted.update(own)
            self.layers[name] = _unmeasured(name, module, own)
        self.order: dict[str, None] = {}
        self._running: list[str] = []
        # Weak references do not keep storages alive, but prevent reuse of their addresses.
        self._counted: set[StorageWeakRef] = set()

    def push(self, text: str) -> None:
        self._running.append(text)

    def pop(self) -> None:
        self._running.pop()

    def start(self, text: str) -> None:
        pass  # Marks protocol; layers use push and pop

    def end(self, handle: None) -> None:
        pass

    def count_outputs(self, module: nn.Module, inputs: Any, outputs: Any) -> None:
        # Views of inputs and outputs of a child are not new feature maps.
        if _recomputing():
            return
        layer = self.layers[self.names[module]]
        known = {_storage(tensor) for tensor in tensors(inputs)}
        for tensor in tensors(outputs):
            storage = _storage(tensor)
            if storage not in known and storage not in self._counted:
                self._counted.add(storage)
                layer.feature_map_bytes += tensor.numel() * tensor.element_size()

    def count(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        if not self._running:
            return
        direction, _, name = self._running[-1].partition(":")
        layer = self.layers[name]
        backward = direction == _BACKWARD
        if not backward and _recomputing():
            return
        layer.ran = True
        if not backward:
            self.order.setdefault(layer.name)
        operation = func._overloadpacket
        formula = _FORMULAS.get(str(operation)) or flop_registry.get(operation)
        if formula is None:
            return
        flop = formula(*args, **kwargs, out_val=out)
        if _is_causal(func, args, kwargs):
            flop //= 2  # position i attends to i of n positions: on average half, for large n
        if backward:
            layer.backward_flop += flop
        else:
            layer.forward_flop += flop
            operand = next(tensors(args), None)
            if operand is not None:
                layer.precision = _PRECISIONS.get(operand.dtype)


def _unmeasured(name: str, module: nn.Module, own: list[nn.Parameter]) -> Layer:
    trained = [p for p in own if p.requires_grad]
    return Layer(
        name=name,
        type=type(module).__name__,
        parameters=sum(p.numel() for p in trained),
        weight_bytes=sum(p.numel() * p.element_size() for p in own),
        gradient_bytes=sum(p.numel() * p.element_size() for p in trained),
    )


def _storage(tensor: Tensor) -> StorageWeakRef:
    return StorageWeakRef(tensor.untyped_storage())


def _recomputing() -> bool:
    # A module runs inside a backward pass only if its activations were checkpointed.
    return torch._C._current_graph_task_id() != -1


def _is_causal(func: Any, args: Any, kwargs: Any) -> bool:
    if "is_causal" in kwargs:
        return bool(kwargs["is_causal"])
    names = [argument.name for argument in func._schema.arguments]
    place = names.index("is_causal") if "is_causal" in names else len(args)
    return place < len(args) and bool(args[place])


def _recurrent_flop(sequence: Tensor, weights: Any) -> int:
    # Each weight is used once per step and sample; a multiply-add is 2.
    steps = sequence.shape[0] * sequence.shape[1] if sequence.dim() == 3 else sequence.shape[0]
    elements: int = sum(w.numel() for w in tensors(weights) if w.dim() == 2)
    return 2 * steps * elements


def _cudnn(sequence: Tensor, weights: Any, *_args: Any, out_val: Any, **_kwargs: Any) -> int:
    return _recurrent_flop(sequence, weights)


def _cudnn_backward(sequence: Tensor, weights: Any, *_: Any, out_val: Any, **_kwargs: Any) -> int:
    return 2 * _recurrent_flop(sequence, weights)


def _onednn(sequence: Tensor, *weights: Any, out_val: Any, **_kwargs: Any) -> int:
    return _recurrent_flop(sequence, weights[:2])


def _onednn_backward(sequence: Tensor, *weights: Any, out_val: Any, **_kwargs: Any) -> int:
    return 2 * _recurrent_flop(sequence, weights[:2])


def _attention(query: Tensor, key: Tensor, value: Tensor, *_: Any, **_kwargs: Any) -> int:
    flop: int = sdpa_flop_count(query.shape, key.shape, value.shape)
    return flop


def _attention_backward(_gradient: Tensor, *operands: Any, **_kwargs: Any) -> int:
    return 2 * _attention(*operands)


def _convolution_backward(
    gradient: Tensor, inputs: Tensor, weight: Tensor, *rest: Any, **_kwargs: Any
) -> int:
    # As many FLOP as forward for each requested gradient. torch's own formula counts the weights'
    # gradient once per group of a grouped convolution.
    transposed, wanted = rest[4], rest[7]
    forward: int = conv_flop_count(
        list(inputs.shape), list(weight.shape), list(gradient.shape), transposed=transposed
    )
    return forward * sum(wanted[:2])


# Operations that torch's registry lacks or counts differently.
_FORMULAS: dict[str, Callable[..., int]] = {
    "aten.convolution_backward": _convolution_backward,
    "aten._cudnn_rnn": _cudnn,
    "aten._cudnn_rnn_backward": _cudnn_backward,
    "aten.mkldnn_rnn_layer": _onednn,
    "aten.mkldnn_rnn_layer_backward": _onednn_backward,
}
for _name in ("flash_attention", "efficient_attention", "cudnn_attention"):
    _FORMULAS[f"aten._scaled_dot_product_{_name}"] = _attention
    _FORMULAS[f"aten._scaled_dot_product_{_name}_backward"] = _attention_backward
_FORMULAS["aten._scaled_dot_product_flash_attention_for_cpu"] = _attention
_FORMULAS["aten._scaled_dot_product_flash_attention_for_cpu_backward"] = _attention_backward
