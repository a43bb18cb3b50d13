"""Train a model on several ranks with DistributedDataParallel."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tbd_models.definition import UnsupportedError
from tbd_models.instrument.flight_dump import dump_later


def world_size() -> int:
    """Return the number of ranks as torchrun sets it, 1 without it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def join(kind: str) -> torch.device:
    """Join the process group and return this rank's device of a kind.

    Raises UnsupportedError if the machine has fewer GPUs than ranks.
    """
    device = torch.device(kind)
    if kind == "cuda":
        local = int(os.environ.get("LOCAL_RANK", "0"))
        if local >= torch.cuda.device_count():
            raise UnsupportedError(
                f"rank {dist_rank()} needs its own GPU, and there are {torch.cuda.device_count()}; "
                "use fewer --ranks or --device cpu"
            )
        device = torch.device(kind, local)
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if kind == "cuda" else "gloo")
    dump_later()
    return device


def dist_rank() -> int:
    """Return this process's rank as torchrun sets it, 0 without it."""
    return int(os.environ.get("RANK", "0"))


def leave() -> None:
    """Leave the process group, if any."""
    if dist.is_initialized():
        dist.destroy_process_group()


def same_on_all(flag: bool, device: torch.device) -> bool:
    """Return rank 0's flag on every rank."""
    shared = torch.tensor([int(flag)], device=device)
    dist.broadcast(shared, 0)
    return bool(shared.item())


def replicated(model: nn.Module, device: torch.device) -> DistributedDataParallel:
    """Return a model whose gradients are averaged over the ranks."""
    devices = [device] if device.type == "cuda" else None
    return DistributedDataParallel(model, device_ids=devices, gradient_as_bucket_view=True)
