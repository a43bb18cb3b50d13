"""The CUDA profiler's switch, for frameworks that have none of their own."""

from __future__ import annotations

import ctypes
from pathlib import Path


def start_profiler() -> None:
    """Call cudaProfilerStart, where the process uses CUDA."""
    _call("cudaProfilerStart")


def stop_profiler() -> None:
    """Call cudaProfilerStop, where the process uses CUDA."""
    _call("cudaProfilerStop")


def _call(function: str) -> None:
    library = _loaded_runtime()
    if library is not None:
        getattr(ctypes.CDLL(str(library)), function)()


def _loaded_runtime() -> Path | None:
    """Return the CUDA runtime library that the framework has loaded."""
    maps = Path("/proc/self/maps")
    if not maps.exists():
        return None
    for line in maps.read_text(encoding="utf-8", errors="replace").splitlines():
        path = Path(line.split(maxsplit=5)[-1])
        if path.name.startswith("libcudart.so"):
            return path
    return None
