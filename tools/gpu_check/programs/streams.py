"""Run chains of small matrix products one after another, and on two streams; time both."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch

_PRODUCTS, _WIDTH, _ROUNDS = 20, 1024, 3


def main() -> None:
    """Time both orders by CUDA events, then record two streams with torch.profiler."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trace", type=Path, default=Path("streams.pt.trace.json"))
    options = parser.parse_args()
    cuda: Any = torch.cuda
    streams = [cuda.Stream(), cuda.Stream()]
    # Few rows: a product leaves most of the GPU to the other stream.
    chains = [torch.randn(64, _WIDTH, device="cuda") for _ in streams]
    weight = torch.randn(_WIDTH, _WIDTH, device="cuda") / _WIDTH**0.5

    def elapsed_ms(used: list[Any]) -> float:
        begin, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        cuda.synchronize()
        begin.record()
        for stream in used:
            stream.wait_event(begin)
        for first, stream in zip(chains, used, strict=True):
            with cuda.stream(stream):
                product = first
                for _ in range(_PRODUCTS):
                    product = product @ weight
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
    facts["launches"] = _PRODUCTS * len(streams)
    Path("facts.json").write_text(json.dumps(facts), encoding="utf-8")


if __name__ == "__main__":
    main()
