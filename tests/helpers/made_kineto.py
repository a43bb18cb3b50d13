"""Made traces of torch.profiler."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

Event = dict[str, Any]
GPU: dict[str, Any] = {
    "id": 0,
    "name": "NVIDIA A100-SXM4-40GB",
    "totalGlobalMem": 42505273344,
    "computeMajor": 8,
    "computeMinor": 0,
    "maxThreadsPerBlock": 1024,
    "maxThreadsPerMultiprocessor": 2048,
    "regsPerBlock": 65536,
    "regsPerMultiprocessor": 65536,
    "warpSize": 32,
    "sharedMemPerBlock": 49152,
    "sharedMemPerBlockOptin": 166912,
    "sharedMemPerMultiprocessor": 167936,
    "numSms": 108,
}
PID = 77


def event(cat: str, name: str, ts: Any, dur: Any = 1, **more: Any) -> Event:
    """A complete event on the main thread; ``args`` and other keys replace the usual ones."""
    base: Event = {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": PID,
        "tid": PID,
        "ts": ts,
        "dur": dur,
    }
    return base | more


def operator(name: str, ts: Any, dur: Any = 1, **args: Any) -> Event:
    return event("cpu_op", name, ts, dur, args={"External id": 1, **args})


def launch(ts: Any, correlation: Any, name: str = "cudaLaunchKernel", **more: Any) -> Event:
    return event("cuda_runtime", name, ts, 2, args={"correlation": correlation}, **more)


def kernel(ts: Any, dur: Any = 5, correlation: Any = 1, name: str = "gemm", **args: Any) -> Event:
    usual = {
        "device": 0, "context": 1, "stream": 7, "correlation": correlation, "grid": [2, 3, 4],
        "block": [32, 2, 1], "registers per thread": 40, "shared memory": 1024,
        "est. achieved occupancy %": 31,
    }  # fmt: skip
    return event("kernel", name, ts, dur, pid=0, tid=7, args=usual | args)


def memory(
    ts: Any, address: int, size: int, total: int, *, device: int = 0, kind: int = 1
) -> Event:
    args = {
        "Addr": address, "Bytes": size, "Device Id": device, "Device Type": kind,
        "Total Allocated": total, "Total Reserved": 4096 if kind else 0,
    }  # fmt: skip
    return event("cpu_instant_event", "[memory]", ts, ph="i", s="t", args=args)


def frame(ts: Any, name: str, number: int, parent: int | None) -> Event:
    args = {"Python id": number, "Python parent id": parent}
    return event("python_function", name, ts, 1, args=args)


def document(events: list[Event], **header: Any) -> dict[str, Any]:
    return {"schemaVersion": 1, "deviceProperties": [GPU], **header, "traceEvents": events}


def write(path: Path, content: Any, indent: int | None = None) -> Path:
    """Write JSON, or bytes as they are; gzipped if the name says so."""
    data = content if isinstance(content, bytes) else json.dumps(content, indent=indent).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path
