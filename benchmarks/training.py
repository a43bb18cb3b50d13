"""Simulate a training run as a profiler would record it: one process, iteration by iteration.

The forward pass runs on the main thread, the backward pass on the autograd thread. Launches are
inside nested operator ranges with other API calls around them; kernels of a stream run one after
another; each iteration ends with a synchronization.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from benchmarks.exports import Export, Row
from benchmarks.names import API, OPERATORS, kernel_name, operator_texts
from benchmarks.sizes import Size
from nsys_schema import NVTX_PUSH_POP, NVTX_START_END, CudaStream
from nsys_writer import MACHINE_ID

_CONTEXT, _COMPUTE, _COPY = 1, 7, 13
_OPEN_NS, _CLOSE_NS = 350, 250  # cost of opening and closing a range
_DRAWS = 4096  # durations drawn once: drawing each would take longer than writing its row


@dataclass(slots=True)
class Rows:
    """Rows of an iteration by table."""

    kernels: list[Row] = field(default_factory=list)
    memcpys: list[Row] = field(default_factory=list)
    memsets: list[Row] = field(default_factory=list)
    calls: list[Row] = field(default_factory=list)
    waits: list[Row] = field(default_factory=list)
    ranges: list[Row] = field(default_factory=list)


@dataclass(slots=True)
class _Thread:
    global_tid: int
    now: int  # simulated time, ns


class Process:
    """A process of the run with its GPU; both have the index ``number``.

    ``export`` gets names, threads and devices; ``seed`` determines all durations.
    """

    def __init__(self, export: Export, size: Size, number: int, seed: int) -> None:
        self._size = size
        self._device = number
        pid = 4000 + 100 * number
        self._global_pid = export.process(pid, "python")
        export.gpu(number, pid, _CONTEXT)
        for stream in (_COMPUTE, _COPY):
            export.add(CudaStream(stream, 0, MACHINE_ID, pid, _CONTEXT, 0, 1))
        names = ["python", "pt_autograd_0", *(f"loader_{n}" for n in range(size.threads - 2))]
        threads = [
            _Thread(export.thread(self._global_pid, pid + index, name), 1_000_000)
            for index, name in enumerate(names[: size.threads])
        ]
        self._main, self._loaders = threads[0], threads[2:]
        self._autograd = threads[1] if size.threads > 1 else self._main
        self._string = export.string
        self._api = {name: export.string(name) for name in API}
        self._kernel_names = [kernel_name(export, kernel) for kernel in range(24)]
        self._layers = [f"block{n // 4}.{OPERATORS[n % 8].strip('_')}" for n in range(size.layers)]
        rng = random.Random(seed * 1_000_003 + number)
        self._durations = [int(rng.lognormvariate(9.6, 0.7)) for _ in range(_DRAWS)]
        self._call_lengths = [rng.randint(900, 5200) for _ in range(_DRAWS)]
        self._drawn = self._correlation = self._sequence = self._operation = self._range = 0
        self._gpu_free = {_COMPUTE: 0, _COPY: 0}

    def iteration(self, number: int, rows: Rows) -> None:
        """Add the rows of the next iteration."""
        main = self._main
        for thread in (self._autograd, *self._loaders):
            thread.now = main.now = max(main.now, thread.now)
        begin = main.now
        main.now += _OPEN_NS
        for loader in self._loaders:
            self._load(loader, number, rows)
        self._phase(rows, "data", self._copy_batch)
        first = self._sequence
        self._phase(rows, "forward", self._forward)
        main.now += 2000
        self._backward(rows, first)
        self._phase(rows, "optimizer", self._optimizer)
        self._synchronize(rows)
        main.now += _CLOSE_NS
        self._named(rows, main, f"iteration {number}", begin, main.now)
        main.now += 5000

    @property
    def end_ns(self) -> int:
        """Simulated time of the main thread, ns."""
        return self._main.now

    def _phase(self, rows: Rows, name: str, body: Callable[[Rows], None]) -> None:
        begin = self._main.now
        self._main.now += _OPEN_NS
        body(rows)
        self._main.now += _CLOSE_NS
        self._named(rows, self._main, f"phase:{name}", begin, self._main.now)

    def _forward(self, rows: Rows) -> None:
        for index, layer in enumerate(self._layers):
            begin = self._main.now
            self._main.now += _OPEN_NS
            self._fill(rows)
            for kernel in range(self._size.kernels_per_layer):
                self._sequence += 1
                operator = OPERATORS[(index + kernel) % len(OPERATORS)]
                texts = self._texts(f"aten::{operator}", f"aten::_{operator}", self._sequence)
                self._launch(rows, self._main, texts, index + kernel)
            self._main.now += _CLOSE_NS
            self._named(rows, self._main, f"layer:{layer}", begin, self._main.now)

    def _backward(self, rows: Rows, first: int) -> None:
        thread, begin = self._autograd, self._main.now
        self._main.now += _OPEN_NS
        thread.now = max(thread.now, self._main.now)
        sequence = first + self._size.layers * self._size.kernels_per_layer
        for index in reversed(range(self._size.layers)):
            layer_begin = thread.now
            thread.now += _OPEN_NS
            for kernel in reversed(range(self._size.kernels_per_layer)):
                operator = OPERATORS[(index + kernel) % len(OPERATORS)].strip("_").title()
                node = f"{operator}Backward0"
                outer = f"autograd::engine::evaluate_function: {node}"
                self._launch(rows, thread, self._texts(outer, node, sequence), index + kernel + 8)
                sequence -= 1
            thread.now += _CLOSE_NS
            self._named(
                rows, thread, f"layer_backward:{self._layers[index]}", layer_begin, thread.now
            )
        self._main.now = max(self._main.now, thread.now) + _CLOSE_NS
        self._named(rows, self._main, "phase:backward", begin, self._main.now)

    def _optimizer(self, rows: Rows) -> None:
        for index in range(self._size.layers):
            texts = self._texts("Optimizer.step#SGD.step", "aten::_foreach_add_", None)
            self._launch(rows, self._main, texts, index % 3 + 20)

    def _texts(self, outer: str, inner: str, sequence: int | None) -> list[str]:
        self._operation += 1
        return operator_texts(outer, inner, sequence, self._operation, self._size.depth)

    def _launch(self, rows: Rows, thread: _Thread, texts: list[str], kernel: int) -> None:
        opened = thread.now
        thread.now += len(texts) * _OPEN_NS
        self._call(rows, thread, "cudaStreamIsCapturing_v10000")
        correlation = self._call(rows, thread, "cudaLaunchKernel_v7000")
        start = max(thread.now + 1500, self._gpu_free[_COMPUTE] + 700)
        end = self._gpu_free[_COMPUTE] = start + self._durations[self._drawn % _DRAWS]
        names, grid, block, registers = self._kernel_names[kernel % len(self._kernel_names)]
        where = (self._device, _CONTEXT, _COMPUTE, correlation, self._global_pid)
        rows.kernels.append(
            (start, end, *where, *names, grid, block, registers, 1024, 32768, correlation)
        )
        self._call(rows, thread, "cudaEventRecord_v3020")
        closed = thread.now
        tid = thread.global_tid
        levels = len(texts)
        rows.ranges += [
            (
                opened + level * _OPEN_NS,
                closed + (levels - level) * _CLOSE_NS,
                NVTX_PUSH_POP,
                None,
                text,
                tid,
                None,
                None,
            )
            for level, text in enumerate(texts)
        ]
        thread.now = closed + levels * _CLOSE_NS + 400

    def _call(self, rows: Rows, thread: _Thread, name: str, end: int | None = None) -> int:
        # Starts at the thread's time; returns the correlation id.
        self._drawn += 1
        self._correlation += 1
        start = thread.now
        thread.now = start + self._call_lengths[self._drawn % _DRAWS] if end is None else end
        rows.calls.append(
            (start, thread.now, thread.global_tid, self._correlation, self._api[name])
        )
        thread.now += 150
        return self._correlation

    def _operate(self, stream: int, thread: _Thread, duration: int) -> tuple[int, int]:
        start = max(thread.now + 1200, self._gpu_free[stream] + 500)
        self._gpu_free[stream] = start + duration
        return start, start + duration

    def _fill(self, rows: Rows) -> None:
        correlation = self._call(rows, self._main, "cudaMemsetAsync_v3020")
        span = self._operate(_COMPUTE, self._main, 1800)
        where = (self._device, _CONTEXT, _COMPUTE, correlation, self._global_pid)
        rows.memsets.append((*span, *where, 65_536))

    def _copy_batch(self, rows: Rows) -> None:
        for size in (19_267_584, 256):
            correlation = self._call(rows, self._main, "cudaMemcpyAsync_v3020")
            span = self._operate(_COPY, self._main, 1500 + size // 24)
            where = (self._device, _CONTEXT, _COPY, correlation, self._global_pid)
            rows.memcpys.append((*span, *where, size))

    def _synchronize(self, rows: Rows) -> None:
        main = self._main
        done = max(main.now + 1000, *(free + 2000 for free in self._gpu_free.values()))
        start = main.now
        correlation = self._call(rows, main, "cudaStreamSynchronize_v3020", done)
        where = (self._device, _CONTEXT, _COMPUTE, correlation, self._global_pid)
        rows.waits.append((start + 300, done - 200, *where))

    def _load(self, loader: _Thread, number: int, rows: Rows) -> None:
        # "prefetch" starts on the loader's thread and ends on the main thread.
        begin = loader.now
        loader.now += 3 * _OPEN_NS
        self._call(rows, loader, "cudaHostAlloc_v3020")
        self._named(rows, loader, "collate", begin + _OPEN_NS, loader.now + _CLOSE_NS)
        self._named(rows, loader, "load batch", begin, loader.now + 2 * _CLOSE_NS)
        loader.now += 3 * _CLOSE_NS
        self._range += 1
        ends = (NVTX_START_END, self._range, None, loader.global_tid, self._main.global_tid)
        rows.ranges.append((begin + 100, loader.now + 100, *ends, self._string("prefetch")))

    def _named(self, rows: Rows, thread: _Thread, text: str, begin: int, end: int) -> None:
        # The text is registered, so the row refers to StringIds.
        number = self._string(text)
        rows.ranges.append((begin, end, NVTX_PUSH_POP, None, None, thread.global_tid, None, number))
