"""Train a small network with one deliberate fault, or without, and measure its steps.

The unprofiled step is the truth for predictions: it is timed before the loop is marked. Under
`tbd-trace collect` the marked loop is then recorded.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import tbd_trace

_TIMED, _WARM_UP, _TRAILING = 10, 8, 3


def main() -> None:
    """Time the loop, then train it marked."""
    options = _options()
    torch.manual_seed(0)
    loop = Loop(options)
    loop.train(_WARM_UP)
    loop.synchronize()
    started = time.perf_counter()
    loop.train(_TIMED)
    loop.synchronize()
    step_ns = (time.perf_counter() - started) / _TIMED * 1e9
    facts = {"step_ns": step_ns, "parameters": sum(p.numel() for p in loop.model.parameters())}
    options.facts.write_text(json.dumps(facts), encoding="utf-8")
    tbd_trace.instrument(loop.plain, loop.optimizer, batch_size=options.batch_size)
    if options.window:
        with _profiler_window(loop.on_gpu):
            loop.train(options.steps)
    else:
        loop.train(options.steps + _WARM_UP + _TRAILING)
    loop.synchronize()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--depth", type=int, default=8)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--loader-ms", type=float, default=0, help="time to make a batch")
    parser.add_argument("--input-mib", type=float, default=0, help="size of another input")
    parser.add_argument("--pinned", action="store_true", help="copy from pinned memory")
    parser.add_argument("--sync", action="store_true", help="wait for the GPU after each layer")
    parser.add_argument("--adam", choices=("loop", "fused"), default="fused")
    parser.add_argument("--execution", choices=("eager", "compile", "graph"), default="eager")
    parser.add_argument(
        "--window",
        action="store_true",
        help="train between cudaProfilerStart and cudaProfilerStop, for nsys and ncu",
    )
    parser.add_argument("--facts", type=Path, default=Path("facts.json"))
    return parser.parse_args()


class _Layer(nn.Module):
    def __init__(self, width: int, sync: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.sync = sync

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.linear(x))
        if self.sync and y.is_cuda:
            torch.cuda.synchronize()  # the fault: the host waits for the GPU
        return y


class Loop:
    """A training loop with the faults of the options."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.on_gpu = options.device == "cuda"
        layers = [_Layer(options.width, options.sync) for _ in range(options.depth)]
        self.plain: nn.Module = nn.Sequential(*layers).to(options.device)
        adam: dict[str, Any] = {"fused": True} if options.adam == "fused" else {"foreach": False}
        self.optimizer = torch.optim.Adam(self.plain.parameters(), lr=1e-5, **adam)
        self.model: Any = self.plain
        if options.execution == "compile":
            self.model = torch.compile(self.plain)
        elif options.execution == "graph":
            sample = torch.randn(options.batch_size, options.width, device=options.device)
            self.model = torch.cuda.make_graphed_callables(self.plain, (sample,))
        self._batches = self._make_batches()

    def _make_batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        size = self.options.batch_size, self.options.width
        extra = torch.randn(max(1, int(self.options.input_mib * 2**18)))
        batch = torch.randn(size)
        if self.options.pinned:
            batch, extra = batch.pin_memory(), extra.pin_memory()
        while True:
            time.sleep(self.options.loader_ms / 1e3)
            yield batch, extra

    def train(self, steps: int) -> None:
        """Train for some steps."""
        to: Callable[[Tensor], Tensor] = lambda x: x.to(  # noqa: E731
            self.options.device, non_blocking=self.options.pinned
        )
        for _ in range(steps):
            # The range by which torch.profiler marks the loader of PyTorch.
            with torch.profiler.record_function("enumerate(DataLoader)#made.__next__"):
                batch, extra = next(self._batches)
            x, more = to(batch), to(extra)
            loss = self.model(x).square().mean() + 0 * more[0]
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)

    def synchronize(self) -> None:
        """Wait for the GPU."""
        if self.on_gpu:
            torch.cuda.synchronize()


def _profiler_window(on_gpu: bool) -> Any:
    return torch.cuda.profiler.profile() if on_gpu else nullcontext()


if __name__ == "__main__":
    main()
