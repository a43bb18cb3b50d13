"""Train a model whose parameters are sharded over the ranks (FSDP2, ``fully_shard``)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard

from tbd_models.definition import UnsupportedError
from tbd_models.instrument.marks import Marks, marked

_LISTS = (nn.ModuleList, nn.ModuleDict)  # they have no forward pass


def shard(model: nn.Module, device: torch.device) -> None:
    """Divide the parameters of a model among the ranks, with rank 0's values.

    Each block of the model is gathered before it runs, and its gradients are reduced and scattered
    after its backward pass. What belongs to no block is gathered once for all.

    Raises UnsupportedError for a model without blocks.
    """
    blocks = list(_blocks(model))
    if not blocks:
        raise UnsupportedError(
            f"--scheme fsdp shards models by their blocks, and {type(model).__name__} has none; "
            "use --scheme ddp"
        )
    for tensor in (*model.parameters(), *model.buffers()):
        dist.broadcast(tensor.data, 0)
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    for block in (*blocks, model):
        fully_shard(block, mesh=mesh)


def _blocks(module: nn.Module) -> Iterator[nn.Module]:
    # The outermost elements of lists and sequences.
    for child in module.children():
        is_element = isinstance(module, (*_LISTS, nn.Sequential)) and not isinstance(child, _LISTS)
        if is_element and any(True for _ in child.parameters()):
            yield child
        else:
            yield from _blocks(child)


def synchronize_gradients(model: nn.Module, *, wanted: bool) -> None:
    """Say whether the next backward pass reduces the gradients of a sharded model."""
    assert isinstance(model, FSDPModule)
    model.set_requires_gradient_sync(wanted)


def mark_shards(model: nn.Module, marks: Marks) -> None:
    """Enclose each all-gather and reduce-scatter of a sharded model in a range."""
    sharded = [module for module in model.modules() if isinstance(module, FSDPModule)]
    for number, module in enumerate(sharded):
        gather: Any = _AllGather(number, marks)  # their protocols are private
        scatter: Any = _ReduceScatter(number, marks)
        module.set_custom_all_gather(gather)
        module.set_custom_reduce_scatter(scatter)


class _Collective:
    def __init__(self, number: int, marks: Marks) -> None:
        self._number = number
        self._marks = marks

    def allocate(self, size: Any, *, dtype: torch.dtype, device: torch.device) -> Tensor:
        return torch.empty(*size, dtype=dtype, device=device)

    def _range(self, kind: str, whole: Tensor) -> Any:
        text = f"{kind}, bytes = {whole.nbytes}, bucket = {self._number}"
        return marked(self._marks, text)


class _AllGather(_Collective):
    # On a GPU, the range covers the call; the kernel has the time of the transfer.
    def __call__(
        self, output_tensor: Tensor, input_tensor: Tensor, group: Any, async_op: bool = False
    ) -> Any:
        with self._range("all_gather", output_tensor):
            return dist.all_gather_into_tensor(output_tensor, input_tensor, group, async_op)


class _ReduceScatter(_Collective):
    def __call__(
        self,
        output_tensor: Tensor,
        input_tensor: Tensor,
        group: Any,
        op: Any,
        async_op: bool = False,
    ) -> Any:
        with self._range("reduce_scatter", input_tensor):
            return dist.reduce_scatter_tensor(output_tensor, input_tensor, op, group, async_op)
