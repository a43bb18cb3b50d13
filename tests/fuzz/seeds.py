"""Small valid inputs of each kind, which the fuzzer changes."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

import made_nsys
import made_nvprof
from corpus import ROOT
from tbd_trace.cli.main import app
from tbd_trace.store import Database

SAMPLES = ROOT / "data" / "samples"
KERNELS = 12
_NVPROF_CSV = (
    "==1== NVPROF is profiling process 1, command: x\n==1== Profiling result:\n"
    '"Start","Duration","Grid X","Grid Y","Grid Z","Block X","Block Y","Block Z","Device",'
    '"Context","Stream","Name","Correlation_ID"\nms,us,,,,,,,,,,,\n'
)
_NCCL_LOG = """\
# nccl-tests version 2.17.6 nccl-headers=22808 nccl-library=22808
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 1 minBytes 8 maxBytes 1024 step: 2(factor) iters: 20
#
# Using devices
#  Rank  0 Group  0 Pid    100 on    node-0 device  0 [0x00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid    101 on    node-1 device  1 [0x01] NVIDIA H100 80GB HBM3
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
        1024           256     float     sum      -1    10.00    0.10    0.10      0    10.00    0.10    0.10      0
        2048           512     float     sum      -1    11.00    0.19    0.19      0    11.00    0.19    0.19      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 0.145
#
"""  # noqa: E501
_MXNET_CSV = '"Attribute Name","Requested Size","Device","Actual Size","Reuse?"\n' + "".join(
    f'"net:in_arg:conv{i}_weight","{1000 + i}","0","4096","0"\n' for i in range(6)
)


def nsys(folder: Path) -> Path:
    """Write an nsys export with rows in every table that is read."""
    tables = made_nsys.profile()
    start, step = 2000, 100
    tables[made_nsys.KERNEL] += [
        made_nsys.kernel(
            start=start + i * step, end=start + i * step + 40 + i, correlationId=60 + i
        )
        for i in range(KERNELS)
    ]
    return made_nsys.write(folder / "timeline.sqlite", tables)


def nvprof(folder: Path) -> Path:
    """Write an nvprof database with kernels and launches."""
    times = range(made_nvprof.START, made_nvprof.START + KERNELS * 1000, 1000)
    kernels = [made_nvprof.kernel(start=t, correlation=i) for i, t in enumerate(times, start=1)]
    calls = [made_nvprof.call(211, i, t - 20) for i, t in enumerate(times, start=1)]
    tables = {"CONCURRENT_KERNEL": kernels, "RUNTIME": calls}
    return made_nvprof.make(folder / "timeline.nvvp", ["gemm"], tables)


def nvprof_csv(folder: Path) -> Path:
    """Write the CSV of ``nvprof --print-gpu-trace``."""
    rows = (
        f'{i}.5,{40 + i}.25,1,2,1,128,1,1,"V100 (0)","1","7","gemm [{i}]",{i}\n'
        for i in range(KERNELS)
    )
    return _text(folder / "gpu_trace.csv", _NVPROF_CSV + "".join(rows))


def ncu_csv(folder: Path) -> Path:
    """Copy the counters of the sample's first kernels."""
    lines = (SAMPLES / "synthetic_cnn" / "metrics.csv").read_text().splitlines(keepends=True)
    return _text(folder / "metrics.csv", "".join(lines[:14]))


def kineto(folder: Path) -> Path:
    """Write a short PyTorch trace: the first events of the sample of each category."""
    document = _torch_document()
    return _text(folder / "a.pt.trace.json", json.dumps(document, indent=1))


def kineto_gz(folder: Path) -> Path:
    """Write the same trace, gzipped."""
    path = folder / "a.pt.trace.json.gz"
    path.write_bytes(gzip.compress(json.dumps(_torch_document()).encode(), mtime=0))
    return path


def snapshot(folder: Path) -> Path:
    """Copy the memory snapshot of the sample."""
    return Path(shutil.copy(SAMPLES / "synthetic_memory" / "snapshot.pickle", folder))


def memory_log(folder: Path) -> Path:
    """Copy the first lines of the memory log of the sample."""
    lines = (SAMPLES / "synthetic_memory" / "memory.jsonl").read_text().splitlines(keepends=True)
    return _text(folder / "memory.jsonl", "".join(lines[:60]))


def nccl_log(folder: Path) -> Path:
    """Write a log of nccl-tests."""
    return _text(folder / "link.log", _NCCL_LOG)


def mxnet_csv(folder: Path) -> Path:
    """Write a GPU memory profile of MXNet."""
    return _text(folder / "gpu_memory_profile.csv", _MXNET_CSV)


def capture(folder: Path) -> Path:
    """Write a capture directory; the fuzzer changes its ``capture.json``."""
    directory = folder / "capture"
    directory.mkdir()
    nvprof_csv(directory)
    document = json.loads((SAMPLES / "synthetic_cnn" / "capture.json").read_text())
    document["files"] = ["gpu_trace.csv"]
    document.pop("layers", None)
    _text(directory / "capture.json", json.dumps(document))
    return directory


def archive(folder: Path) -> Path:
    """Write an archive of one trace."""
    database = Database(folder / "seed.duckdb")
    database.ingest([nvprof_csv(folder)])
    path = folder / "a.tbd.zip"
    arguments = ["archive", "create", "--db", str(database.path), "-o", str(path)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    return path


def store(folder: Path) -> Path:
    """Write a database of one trace; the fuzzer changes its files."""
    database = Database(folder / "store" / "seed.duckdb")
    database.path.parent.mkdir()
    database.ingest([nvprof_csv(folder)])
    return database.path.parent


KINDS: dict[str, Callable[[Path], Path]] = {
    "nsys": nsys, "nvprof": nvprof, "nvprof-csv": nvprof_csv, "ncu-csv": ncu_csv,
    "kineto": kineto, "kineto-gz": kineto_gz, "snapshot": snapshot, "memory-log": memory_log,
    "nccl-log": nccl_log, "mxnet-csv": mxnet_csv, "capture": capture, "archive": archive,
    "store": store,
}  # fmt: skip


def _text(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def _torch_document() -> dict[str, Any]:
    path = SAMPLES / "synthetic_mlp" / "timeline.pt.trace.json"
    document: dict[str, Any] = json.loads(path.read_text())
    seen: dict[str, int] = {}
    kept = []
    for event in document["traceEvents"]:
        category = event.get("cat", event["ph"])
        seen[category] = seen.get(category, 0) + 1
        if seen[category] <= KERNELS:
            kept.append(event)
    return {**document, "traceEvents": kept}
