"""Detect the GPUs of this machine and map compute capabilities to chips and their counters."""

from __future__ import annotations

import csv
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from types import MappingProxyType

from tbd_collectors.process import CollectionError
from tbd_trace.errors import UsageError
from tbd_trace.machine import amd_gpu

# nvidia-smi takes several seconds where the driver has to initialize the GPU first.
_TIMEOUT_S = 20
_CAPABILITY = re.compile(r"(\d+)\.(\d+)")

# Compute capability -> chip whose column in metrics/nsight_compute.csv applies to it.
CHIPS: Mapping[str, str] = MappingProxyType(
    {
        "7.0": "GV100",
        "7.2": "GV11B",
        "7.5": "TU102",
        "8.0": "GA100",
        "8.6": "GA102",
        "8.7": "GA10B",
        "8.9": "AD102",
        "9.0": "GH100",
        "10.0": "GB100",
        "12.0": "GB202",
    }
)


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU of this machine."""

    name: str  # product name, such as NVIDIA A100-SXM4-80GB
    compute_capability: str  # such as 8.0


def gpus() -> list[Gpu]:
    """Return the GPUs in the driver's order, none without a driver.

    Raises CollectionError if nvidia-smi fails or is too old to report compute capabilities.
    """
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    command = [program, "--query-gpu=name,compute_cap", "--format=csv,noheader"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CollectionError(f"nvidia-smi does not answer ({error}); see tbd-trace doctor") from (
            error
        )
    if "No devices were found" in done.stdout:
        return []
    if done.returncode != 0:
        raise CollectionError(f"nvidia-smi failed: {_last_line(done.stdout + done.stderr)}")
    return [_gpu(line) for line in done.stdout.splitlines() if line.strip()]


def is_amd() -> bool:
    """Return True if AMD GPUs are the only ones; integrated graphics may be beside NVIDIA's."""
    return bool(amd_gpu.architectures()) and not gpus()


def _gpu(line: str) -> Gpu:
    name, _, capability = line.rpartition(", ")
    if not _CAPABILITY.fullmatch(capability.strip()):
        raise CollectionError(f"nvidia-smi does not report the compute capability, but: {line}")
    return Gpu(name, capability.strip())


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no output"


def parsed(compute_capability: str) -> tuple[int, int]:
    """Parse ``8.0`` to (8, 0), which compares by number; raise UsageError for another format."""
    match = _CAPABILITY.fullmatch(compute_capability)
    if match is None:
        raise UsageError(
            f"{compute_capability!r} is an invalid compute capability; write it like 8.0"
        )
    return int(match[1]), int(match[2])


def read_table(name: str) -> list[dict[str, str]]:
    """Return the rows of a CSV file in ``metrics``, without comment lines (``#``)."""
    text = (resources.files("tbd_collectors") / "metrics" / name).read_text(encoding="utf-8")
    return list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))
