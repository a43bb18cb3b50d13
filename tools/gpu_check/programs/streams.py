"""Run kernels of one block on one stream, and on two, where they overlap; time both."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch

_KERNELS, _CYCLES, _ROUNDS = 20, 1_000_000, 3  # about 0.6 ms each


def main() -> None:
    """Time both orders by CUDA events, then record two streams with torch.profiler."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trace", type=Path, default=Path("streams.pt.trace.json"))
    options = parser.parse_args()
    cuda: Any = torch.cuda
    streams = [cuda.Stream(), cuda.Stream()]

    def elapsed_ms(used: list[Any]) -> float:
        begin, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        cuda.synchronize()
        begin.record()
        for stream in used:
            stream.wait_event(begin)
        for stream in used:
            with cuda.stream(stream):
                for _ in range(_KERNELS):
                    cuda._sleep(_CYCLES)
        for stream in used:
            cuda.current_stream().wait_stream(stream)
        end.record()
        cuda.synchronize()
        return float(begin.elapsed_time(end))

    alone = [streams[0]] * 2
    for _ in range(_ROUNDS):
        elapsed_ms(alone), elapsed_ms(streams)
    facts = {"one_stream_ms": elapsed_ms(alone), "two_streams_ms": elapsed_ms(streams)}
    with torch.profiler.profile() as profiler:
        facts["recorded_ms"] = elapsed_ms(streams)
    profiler.export_chrome_trace(str(options.trace))
    facts["launches"] = _KERNELS * len(streams)
    Path("facts.json").write_text(json.dumps(facts), encoding="utf-8")


if __name__ == "__main__":
    main()
