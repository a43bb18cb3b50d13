"""Choose the profiler of a timeline that the user did not name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tbd_collectors import gpu_detection
from tbd_collectors.collection_request import Command, Workload
from tbd_collectors.profilers import timeline_profilers
from tbd_trace.errors import UsageError
from tbd_trace.machine import inspection, nsys_install

_LAUNCHERS = ("torchrun", "accelerate", "deepspeed")  # of PyTorch
_PYTHON = re.compile(r"python[\d.]*")
_NO_OPERATORS = "without a GPU, nsys records no operators"


def usual_profiler(target: Workload | Command) -> tuple[str, str]:
    """Return the profiler of a target and, unless it is nsys, the reason.

    On a GPU, nsys changes the times of a step less than torch.profiler.
    """
    first = timeline_profilers()[0]
    if isinstance(target, Workload) and target.framework != "pytorch":
        return first, ""
    if target.device == "cuda" and gpu_detection.is_amd():
        return "torch", "nsys does not record AMD GPUs"
    if nsys_install.find() is None:
        return "torch", "nsys is not on PATH"
    if target.device == "cpu" and _is_pytorch(target):
        return "torch", _NO_OPERATORS
    return first, ""


def _is_pytorch(target: Workload | Command) -> bool:
    if isinstance(target, Workload):
        return True
    # nsys and nvprof alone record a range that the command selects.
    return target.capture_range is None and _runs_pytorch(target.arguments)


def _runs_pytorch(words: Sequence[str]) -> bool:
    if Path(words[0]).name in _LAUNCHERS:
        return True
    python = interpreter_of(words)
    if python is None:
        return False
    try:
        installed = inspection.interpreter(python)
    except UsageError:
        return False
    has_others = any(inspection.framework_version(n, installed) for n in ("tensorflow", "mxnet"))
    return inspection.framework_version("pytorch", installed) is not None and not has_others


def interpreter_of(words: Sequence[str]) -> str | None:
    """Return the Python interpreter that a command names first, None for another command."""
    return words[0] if words and _PYTHON.fullmatch(Path(words[0]).name) else None
