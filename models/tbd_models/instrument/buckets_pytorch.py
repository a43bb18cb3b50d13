"""Mark the buckets of gradients of DistributedDataParallel."""

# DistributedDataParallel compares the annotations of a hook with types, so they are not postponed.
import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import GradBucket
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

from tbd_models.instrument.marks import Marks, WindowMarks
from tbd_models.instrument.profiler_pytorch import RecordFunctionMarks


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
    if handle is None:
        return future
    receiver = marks.receiver if isinstance(marks, WindowMarks) else marks
    if isinstance(receiver, RecordFunctionMarks):
        return receiver.end_with(handle, future)

    def ended(completed: torch.futures.Future[Tensor]) -> Tensor:
        marks.end(handle)
        return completed.value()

    return future.then(ended)
