"""Measure how a large trace of torch.profiler is read, against unpacking it with zlib.

Usage: python -m benchmarks.torch_trace [--megabytes N] [--repeat FILE] [--rounds 3]
    [--data DIRECTORY]

The trace is generated: steps with nested operators, frames of Python, launches, kernels and
allocations. With --repeat it is a recorded trace again and again, one copy after the other.
Equal sizes give equal files. Prints Markdown.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from statistics import median

from benchmarks.measure import Cost, measure

_HERE = Path(__file__).resolve().parent
_DATA = _HERE / ".data"
HTA_PYTHON = _HERE / ".venvs" / "hta" / "bin" / "python"  # of `make bench-rivals`
_UNZIP = """
import sys, zlib
unpack = zlib.decompressobj(31)
with open(sys.argv[1], "rb") as file:
    while part := file.read(1 << 20):
        unpack.decompress(part)
"""
_LAYERS = 50
_FRAMES = 12  # around each operator: six of ten events, as in real traces with stacks
_PID = 4242
_HEADER = """{
  "schemaVersion": 1,
  "deviceProperties": [
    {
      "id": 0, "name": "NVIDIA A100-SXM4-40GB", "totalGlobalMem": 42505273344,
      "computeMajor": 8, "computeMinor": 0, "maxThreadsPerBlock": 1024,
      "maxThreadsPerMultiprocessor": 2048, "regsPerBlock": 65536, "warpSize": 32,
      "sharedMemPerBlock": 49152, "numSms": 108, "regsPerMultiprocessor": 65536,
      "sharedMemPerBlockOptin": 166912, "sharedMemPerMultiprocessor": 167936
    }
  ],
  "displayTimeUnit": "ms",
  "baseTimeNanoseconds": 1767189312000000000,
  "traceEvents": [
"""
_FOOTER = '  ],\n  "traceName": "generated.json"\n}\n'


@dataclass(slots=True)
class Truth:
    """Numbers of a generated trace."""

    characters: int = 0
    events: int = 0
    kernels: int = 0
    kernel_ns: int = 0
    operators: int = 0


def generate(path: Path, megabytes: int) -> Truth:
    """Write a gzipped trace of about this size unpacked, and return its numbers."""
    truth = Truth()
    with gzip.open(path, "wt", compresslevel=1, encoding="ascii") as file:
        file.write(_HEADER)
        step = 0
        while truth.characters < megabytes << 20:
            text = ",\n".join(_step(step, truth))
            file.write((",\n" if step else "") + text)
            truth.characters += len(text)
            step += 1
        file.write("\n" + _FOOTER)
    return truth


_IDS = ("correlation", "External id", "Ev Idx", "Python id", "Python parent id")


def repeat(recorded: Path, path: Path, megabytes: int) -> None:
    """Write copies of a recorded trace, gzipped: later times and other ids in each."""
    content = recorded.read_bytes()
    text = gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
    trace = json.loads(text, parse_float=Decimal)
    events = [event for event in trace.pop("traceEvents") if event.get("ph") != "M"]
    starts = [Decimal(event["ts"]) for event in events if event["ts"]]
    span = max(starts) - min(starts) + 1_000
    used = [event["args"].get(key) for event in events if "args" in event for key in _IDS]
    ids = 1 + max(number for number in used if isinstance(number, int))
    with gzip.open(path, "wt", compresslevel=6, encoding="utf-8") as file:
        file.write(json.dumps(trace, indent=2, default=float)[:-2] + ',\n  "traceEvents": [\n')
        written = 0
        while written < megabytes << 20:
            for event in events:
                event["ts"] += span
                arguments = event.get("args", {})
                for key in arguments.keys() & _IDS:
                    if isinstance(arguments[key], int):
                        arguments[key] += ids
                # Decimals keep their digits as marked texts, whose quotes are taken away.
                event_text = json.dumps(event, indent=2, default=lambda number: f"\1{number}\1")
                event_text = event_text.replace('"\\u0001', "").replace('\\u0001"', "")
                file.write((",\n" if written else "") + event_text)
                written += len(event_text) + 2
        file.write("\n]}\n")


def _event(cat: str, name: str, start_ns: int, duration_ns: int, args: str) -> str:
    where = f'"pid": {_PID}, "tid": {_PID}' if cat != "kernel" else '"pid": 0, "tid": 7'
    start, duration = (f"{ns // 1000}.{ns % 1000:03}" for ns in (start_ns, duration_ns))
    return (
        f'  {{\n    "ph": "X", "cat": "{cat}", "name": "{name}", {where},\n'
        f'    "ts": {start}, "dur": {duration},\n    "args": {{\n      {args}\n    }}\n  }}'
    )


def _step(step: int, truth: Truth) -> Iterator[str]:
    start = 5_000_000_000_123 + step * 100_000_000
    number = step * _LAYERS
    truth.events += 1 + _LAYERS * (_FRAMES + 5)
    yield _event("user_annotation", f"ProfilerStep#{step}", start, 99_000_000, '"Ev Idx": 0')
    for layer in range(_LAYERS):
        at, number = start + layer * 1_900_001, number + 1
        first = number * _FRAMES
        for depth in range(_FRAMES):
            name = f"torch/nn/modules/module.py({1500 + depth}): _call_impl"
            if depth == _FRAMES - 1:
                name = f"nn.Module: Linear_{layer}"
            parent = first + depth - 1 if depth else "null"
            args = f'"Python parent id": {parent}, "Python id": {first + depth}, "Ev Idx": {number}'
            yield _event("python_function", name, at + depth, 1_800_000 - 2 * depth, args)
        external = f'"External id": {number}'
        shapes = f'"Input Dims": [[64, {layer + 1}], [], [512, 512]], "Ev Idx": {number}'
        yield _event("cpu_op", "aten::linear", at + 100, 90_000, f"{external}, {shapes}")
        yield _event("cpu_op", "aten::addmm", at + 200, 80_000, f"{external}, {shapes}")
        launch = f'{external}, "cbid": 211, "correlation": {number}'
        yield _event("cuda_runtime", "cudaLaunchKernel", at + 300, 6_001, launch)
        duration = 100_000 + 1_001 * layer
        yield _event("kernel", f"void gemm<{layer}>(float*)", at + 9_000, duration, _kernel(number))
        yield (
            f'  {{\n    "ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", '
            f'"pid": {_PID}, "tid": {_PID}, "ts": {at // 1000}.5,\n    "args": {{"Bytes": '
            f'{(-1) ** number * 4096}, "Addr": 140000000000000, "Device Id": 0, "Device Type": 1, '
            f'"Total Allocated": {8192 - number % 2 * 4096}, "Total Reserved": 2097152}}\n  }}'
        )
        truth.kernels += 1
        truth.kernel_ns += duration
        truth.operators += 2


def _kernel(number: int) -> str:
    return (
        f'"External id": {number}, "queued": 0, "device": 0, "context": 1, "stream": 7, '
        f'"correlation": {number}, "registers per thread": 64, "shared memory": 16384, '
        '"blocks per SM": 1.185185, "warps per SM": 9.481481, "grid": [8, 16, 1], '
        '"block": [256, 1, 1], "est. achieved occupancy %": 15'
    )


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1024, help="size of the JSON")
    parser.add_argument("--repeat", type=Path, metavar="FILE", help="a recorded trace to repeat")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--data", type=Path, default=_DATA, help="directory of all files")
    options = parser.parse_args()
    options.data.mkdir(parents=True, exist_ok=True)
    kind = f"-{options.repeat.name.split('.')[0]}" if options.repeat else ""
    path = options.data / f"torch{kind}-{options.megabytes}.json.gz"
    if not path.exists():
        if options.repeat:
            repeat(options.repeat, path, options.megabytes)
        else:
            generate(path, options.megabytes)
    costs = compare(path, options.data / "torch-scratch", options.rounds)
    print(table(path, costs))


def compare(path: Path, scratch: Path, rounds: int) -> dict[str, list[Cost]]:
    """Return the costs of unpacking, of ingest and of first questions, in turns.

    With the environments of rivals, also those of Holistic Trace Analysis.
    """
    tbd = (sys.executable, "-m", "tbd_trace")
    commands = {
        "zlib, unpack only": (sys.executable, "-c", _UNZIP, str(path)),
        "tbd-trace ingest": (*tbd, "ingest", str(path), "--db", str(scratch / "bench.duckdb")),
        "tbd-trace query kernel_summary, cold": (*tbd, "query", "kernel_summary", str(path)),
        "tbd-trace why, cold": (*tbd, "why", str(path)),
    }
    if HTA_PYTHON.exists():
        parse = str(_HERE / "rivals" / "hta_parse.py")
        commands["HTA, parse only"] = (str(HTA_PYTHON), parse, str(path))
        breakdown = str(_HERE / "rivals" / "hta_breakdown.py")
        commands["HTA, GPU and idle time"] = (str(HTA_PYTHON), breakdown, str(path))
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            shutil.rmtree(scratch, ignore_errors=True)
            scratch.mkdir(parents=True)
            environment = {"TBD_TRACE_CACHE": str(scratch)}
            costs[name].append(measure(command, environment, scratch / "log", 600))
    shutil.rmtree(scratch)
    return costs


def table(path: Path, costs: dict[str, list[Cost]]) -> str:
    """Return Markdown: medians, and ratios within the rounds to the first command."""
    lines = [
        f"{path.name}, {path.stat().st_size / 1e6:.0f} MB packed",
        "",
        "| command | s | CPU s | times zlib | times zlib, CPU | peak MB |",
        "|---|---|---|---|---|---|",
    ]
    reference = next(iter(costs.values()))
    for name, own in costs.items():
        if not all(cost.usable for cost in own):
            lines.append(f"| {name} | failed | | | | |")
            continue
        rounds = list(zip(own, reference, strict=True))
        values = (
            f"{median(cost.seconds for cost in own):.1f}",
            f"{median(cost.cpu_seconds for cost in own):.1f}",
            f"{median(cost.seconds / other.seconds for cost, other in rounds):.1f}",
            f"{median(cost.cpu_seconds / other.cpu_seconds for cost, other in rounds):.1f}",
            f"{median(cost.peak_bytes for cost in own) / 1e6:.0f}",
        )
        lines.append(f"| {name} | {' | '.join(values)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
