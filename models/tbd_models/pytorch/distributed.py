"""Train a model on several ranks with DistributedDataParallel."""

# DistributedDataParallel compares the annotations of a hook with types, so they are not postponed.
import os

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._C._distributed_c10d import GradBucket
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

from tbd_models.definition import UnsupportedError
from tbd_models.instrument.marks import Marks
from tbd_models.instrument.profiler_pytorch import RecordFunctionMarks


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


def mark_buckets(model: DistributedDataParallel, marks: Marks) -> None:
    """Enclose the all-reduce of each gradient bucket in a range, until its result is there."""
    group = dist.group.WORLD
    assert group is not None

    def hook(_state: object, bucket: GradBucket) -> torch.futures.Future[Tensor]:
        moved = bucket.buffer()
        text = f"all_reduce, bytes = {moved.nbytes}, bucket = {bucket.index()}"
        handle = marks.start(text)

        return _ends_with(allreduce_hook(group, bucket), handle, marks)

    model.register_comm_hook(None, hook)


def _ends_with(
    future: torch.futures.Future[Tensor], handle: object, marks: Marks
) -> torch.futures.Future[Tensor]:
    if isinstance(marks, RecordFunctionMarks):
        return marks.end_with(handle, future)

    def ended(completed: torch.futures.Future[Tensor]) -> Tensor:
        marks.end(handle)
        return completed.value()

    return future.then(ended)
