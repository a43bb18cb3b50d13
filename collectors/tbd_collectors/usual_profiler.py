"""Choose the profiler of a timeline that the user did not name."""

from __future__ import annotations

from tbd_collectors import gpu_detection
from tbd_collectors.collection_request import Command, Workload
from tbd_collectors.profilers import timeline_profilers
from tbd_trace.machine import nsys_install


def usual_profiler(target: Workload | Command) -> tuple[str, str]:
    """Return the profiler of a target and, unless it is nsys, the reason."""
    first = timeline_profilers()[0]
    if isinstance(target, Workload) and target.framework != "pytorch":
        return first, ""
    if target.device == "cuda" and gpu_detection.is_amd():
        return "torch", "nsys does not record AMD GPUs"
    if nsys_install.find() is None:
        return "torch", "nsys is not on PATH"
    # A command may be no PyTorch program.
    if isinstance(target, Workload) and target.device == "cpu":
        return "torch", "without a GPU, nsys records no operators"
    return first, ""
