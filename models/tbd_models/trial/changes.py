"""Changes that can be tried without editing a program, and how to keep them."""

from __future__ import annotations

from dataclasses import dataclass

from tbd_models.instrument.trial_request import name_and_argument


@dataclass(frozen=True, slots=True)
class TrialChange:
    """A change, in words."""

    meaning: str
    keep: str  # the line for the program; {} is the argument
    argument: str = ""  # usual argument, empty for a change without one
    needs_gpu: bool = False


CHANGES = {
    "workers": TrialChange(
        "worker processes load batches",
        "DataLoader(…, num_workers={}, persistent_workers=True)",
        argument="4",
    ),
    "pinned": TrialChange(
        "batches are copied from pinned memory, and beside the host's work",
        "DataLoader(…, pin_memory=True) and batch.to(device, non_blocking=True)",
        needs_gpu=True,
    ),
    "fused_optimizer": TrialChange(
        "one kernel updates many parameters", "the optimizer's argument fused=True"
    ),
    "foreach_optimizer": TrialChange(
        "each operation of the optimizer is for all parameters",
        "the optimizer's argument foreach=True",
    ),
    "amp": TrialChange(
        "the forward pass computes in BF16",
        "with torch.autocast(device, torch.bfloat16): around forward pass and loss",
    ),
    "tf32": TrialChange(
        "FP32 products use tensor cores",
        'torch.set_float32_matmul_precision("high")',
        needs_gpu=True,
    ),
    "cudnn_benchmark": TrialChange(
        "cuDNN measures which convolution is fastest",
        "torch.backends.cudnn.benchmark = True",
        needs_gpu=True,
    ),
    "compile": TrialChange("torch.compile fuses kernels", "model = torch.compile(model)"),
    "channels_last": TrialChange(
        "images have their channels last, as convolutions on tensor cores want them",
        "model.to(memory_format=torch.channels_last), and the same for the images",
    ),
    "threads": TrialChange(
        "operators on the CPU use another number of threads",
        "torch.set_num_threads({})",
        argument="1",
    ),
    "no_gc": TrialChange(
        "Python collects no garbage during training",
        "gc.freeze() and gc.disable() before the loop, gc.collect() between epochs",
    ),
    "bucket": TrialChange(
        "gradients are reduced in larger buckets",
        "DistributedDataParallel(…, bucket_cap_mb={})",
        argument="100",
    ),
    "compress": TrialChange(
        "gradients are reduced in BF16",
        "ddp_model.register_comm_hook(None, default_hooks.bf16_compress_hook)",
    ),
}
"""The changes by name."""

# Changes of `whatif`, by which `why` names what to try first.
_OF_WHATIF = {
    "input": "workers=4",
    "workers": "workers=4",
    "pinned": "pinned",
    "overlap_copies": "pinned",
    "amp": "amp",
    "compile": "compile",
    "graph": "compile",
    "fused_optimizer": "fused_optimizer",
    "channels_last": "channels_last",
    "host_stalls": "no_gc",
    "bucket": "bucket=100",
    "compress": "compress",
}


def of_whatif(change: str) -> str | None:
    """Return the change to try for one of ``whatif``; None if it needs an edit of the program."""
    return _OF_WHATIF.get(name_and_argument(change)[0])


def keep(change: str) -> str:
    """Return the line with which the program keeps a change."""
    name, argument = name_and_argument(change)
    return CHANGES[name].keep.format(argument)


def possible(*, on_gpu: bool) -> list[str]:
    """Return all changes for a device, with their usual arguments."""
    usable = [name for name, change in CHANGES.items() if on_gpu or not change.needs_gpu]
    return [checked(name, on_gpu=on_gpu) for name in usable]


def checked(change: str, *, on_gpu: bool) -> str:
    """Return a change with its usual argument, if it has none.

    Raises:
        ValueError: the change is unknown, or not for this device.
    """
    name, argument = name_and_argument(change)
    found = CHANGES.get(name)
    if found is None:
        raise ValueError(f"unknown; use one of {', '.join(CHANGES)}")
    if argument and not found.argument:
        raise ValueError("takes no argument")
    if found.argument and argument and not (argument.isdecimal() and int(argument) > 0):
        raise ValueError("expected a positive number")
    if found.needs_gpu and not on_gpu:
        raise ValueError(f"needs a GPU: {found.meaning}")
    return f"{name}={argument or found.argument}" if found.argument else name
