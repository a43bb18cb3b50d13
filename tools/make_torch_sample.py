"""Generate the sample of torch.profiler in ``data/samples``: synthetic, not measured on a GPU.

    python tools/make_torch_sample.py --output data/samples/synthetic_mlp

Equal calls give equal files. A network of two linear layers without bias trains in FP16.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NOTICE = "synthetic: made by tools/make_torch_sample.py, not measured on any GPU"
TRACE = "timeline.pt.trace.json"
STEPS = 4
BATCH, INPUTS, HIDDEN, OUTPUTS = 64, 256, 512, 128
# Kernels of a step take base × part / 400: slow at first, then around the base.
PARTS = (600, 399, 401, 400)
PID, MAIN, AUTOGRAD, STREAM, COPY_STREAM = 4242, 4242, 4250, 7, 14
_START_NS = 5_000_000_000_123
_UTC_NS = 1_704_067_200 * 10**9  # 2024-01-01T00:00:00Z
OPEN, CLOSE, CALL, LATENCY, BETWEEN = 3_000, 2_000, 6_000, 2_000, 1_000  # ns
COPY_NS, SYNC_NS, GAP_NS = 4_000, 3_000, 40_000
_ALLOCATED, _RESERVED = 1 << 20, 2 << 20  # bytes: weights, and what the allocator holds
GEMM = "ampere_fp16_s16816gemm_fp16_64x64_ldg8_f2f_stages_64x6_"
_ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::{}<c10::Half>>(int)"
GPU: dict[str, Any] = {
    "id": 0, "name": "NVIDIA A100-SXM4-40GB", "totalGlobalMem": 42505273344,
    "computeMajor": 8, "computeMinor": 0, "maxThreadsPerBlock": 1024,
    "maxThreadsPerMultiprocessor": 2048, "regsPerBlock": 65536, "warpSize": 32,
    "sharedMemPerBlock": 49152, "numSms": 108, "regsPerMultiprocessor": 65536,
    "sharedMemPerBlockOptin": 166912, "sharedMemPerMultiprocessor": 167936,
}  # fmt: skip
Shape = tuple[int, ...]


class Recorder:
    """Events of a training; ranges open and close on a host clock that only moves forward."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self._now = _START_NS
        self._idle_from = {STREAM: _START_NS, COPY_STREAM: _START_NS}
        self._thread = MAIN
        self._callers: list[int] = []
        self._operators: list[int] = []
        self._counts = dict.fromkeys(("frame", "operator", "correlation"), 0)
        self._allocated = _ALLOCATED
        self.part = PARTS[0]

    def _number(self, of: str) -> int:
        self._counts[of] += 1
        return self._counts[of]

    def _event(self, cat: str, name: str, start: int, end: int, **more: Any) -> None:
        usual = {"ph": "X", "cat": cat, "name": name, "pid": PID, "tid": self._thread}
        self.events.append(usual | {"ts": start / 1000, "dur": (end - start) / 1000} | more)

    def wait(self, nanoseconds: int) -> None:
        """Let the host do something that is not recorded."""
        self._now += nanoseconds

    @contextmanager
    def _range(self, cat: str, name: str, **args: Any) -> Iterator[None]:
        start = self._now
        self._now += OPEN
        yield
        self._now += CLOSE
        self._event(cat, name, start, self._now, args=args)

    @contextmanager
    def python(self, name: str) -> Iterator[None]:
        """A frame of Python."""
        number, parent = self._number("frame"), self._callers[-1] if self._callers else None
        self._callers.append(number)
        ids = {"Python parent id": parent, "Python id": number}
        with self._range("python_function", name, **ids):
            yield
        self._callers.pop()

    def user(self, name: str) -> Any:
        """A range of record_function."""
        return self._range("user_annotation", name, **{"External id": self._number("operator")})

    @contextmanager
    def operator(
        self, name: str, *shapes: Shape, sequence: int | None = None, forward_thread: int = 0
    ) -> Iterator[None]:
        """An operator; shapes are those of its inputs, in FP16."""
        number = self._number("operator")
        self._operators.append(number)
        args: dict[str, Any] = {"External id": number}
        if sequence is not None:
            args |= {"Sequence number": sequence, "Fwd thread id": forward_thread}
        if shapes:
            args |= {"Input Dims": shapes, "Input type": ["c10::Half"] * len(shapes)}
        with self._range("cpu_op", name, **args):
            yield
        self._operators.pop()

    @contextmanager
    def autograd_thread(self) -> Iterator[None]:
        """Record on the thread of the backward pass."""
        self._thread = AUTOGRAD
        yield
        self._thread = MAIN

    def _call(self, name: str, end: int) -> int:
        correlation = self._number("correlation")
        args = {"External id": self._operators[-1] if self._operators else 0}
        args["correlation"] = correlation
        self._event("cuda_runtime", name, self._now, end, args=args)
        self._now = end
        return correlation

    def _gpu(self, cat: str, name: str, duration: int, stream: int, **args: Any) -> None:
        start = max(self._now + LATENCY, self._idle_from[stream] + BETWEEN)
        self._idle_from[stream] = start + duration
        usual = {"External id": self._operators[-1], "device": 0, "context": 1, "stream": stream}
        where = {"pid": 0, "tid": stream}
        self._event(cat, name, start, start + duration, args=usual | args, **where)

    def launch(self, name: str, base: int, blocks: int, threads: int, shared: int = 0) -> None:
        """A call that launches a kernel of this base duration."""
        correlation = self._call("cudaLaunchKernel", self._now + CALL)
        configuration = {
            "correlation": correlation, "registers per thread": 64, "shared memory": shared,
            "grid": [blocks, 1, 1], "block": [threads, 1, 1],
        }  # fmt: skip
        self._gpu("kernel", name, base * self.part // 400, STREAM, **configuration)

    def copy(self, size: int) -> None:
        """A call that copies the next batch to the GPU."""
        correlation = self._call("cudaMemcpyAsync", self._now + CALL)
        name = "Memcpy HtoD (Pinned -> Device)"
        self._gpu("gpu_memcpy", name, COPY_NS, COPY_STREAM, correlation=correlation, bytes=size)

    def synchronize(self) -> None:
        """A call that waits for the GPU."""
        self._call("cudaStreamSynchronize", max(self._now, self._idle_from[STREAM]) + SYNC_NS)

    def memory(self, size: int) -> None:
        """An allocation, or a release if the size is negative."""
        self._allocated += size
        args = {
            "Addr": 140_000_000_000_000, "Bytes": size, "Device Id": 0, "Device Type": 1,
            "Total Allocated": self._allocated, "Total Reserved": _RESERVED,
        }  # fmt: skip
        more = {"ph": "i", "s": "t", "args": args}
        self._event("cpu_instant_event", "[memory]", self._now, self._now, **more)
        del self.events[-1]["dur"]


def _product(record: Recorder, layout: str, base: int, a: Shape, b: Shape) -> None:
    with record.operator("aten::mm", a, b):
        record.launch(GEMM + layout, base, (a[0] // 64) * (b[1] // 64), 128, 98_304)


def _forward(record: Recorder, sequence: int) -> None:
    activations = 2 * BATCH * HIDDEN
    with record.python("nn.Module: MLP_0"), record.python("mlp.py(12): forward"):
        for number, (inputs, outputs) in enumerate(((INPUTS, HIDDEN), (HIDDEN, OUTPUTS))):
            a, b = (BATCH, inputs), (inputs, outputs)
            with record.python(f"nn.Module: Linear_{number}"):
                numbered = {"sequence": sequence + 2 * number}
                with (
                    record.operator("aten::linear", a, b[::-1], **numbered),
                    record.operator("aten::matmul", a, b, **numbered),
                    record.operator("aten::mm", a, b, **numbered),
                ):
                    if number == 0:
                        record.memory(activations)
                    record.launch(GEMM + "tn", 12_000, outputs // 64, 128, 98_304)
            if number == 0:
                with (
                    record.python("nn.Module: ReLU_0"),
                    record.operator("aten::relu", (BATCH, HIDDEN), sequence=sequence + 1),
                ):
                    record.launch(_ELEMENTWISE.format("clamp_min"), 4_000, 64, 128)
    with record.operator("aten::mse_loss", (BATCH, OUTPUTS), sequence=sequence + 3):
        record.launch("void at::native::reduce_kernel<512, 1>(c10::Half*)", 3_200, 1, 512)


@contextmanager
def _node(record: Recorder, name: str, sequence: int) -> Iterator[None]:
    # A node of autograd.
    numbered = {"sequence": sequence, "forward_thread": 1}
    with (
        record.operator(f"autograd::engine::evaluate_function: {name}", **numbered),
        record.operator(name, **numbered),
    ):
        yield


def _backward(record: Recorder, sequence: int) -> None:
    with record.autograd_thread():
        with (
            _node(record, "MseLossBackward0", sequence + 3),
            record.operator("aten::mse_loss_backward", (), (BATCH, OUTPUTS)),
        ):
            record.launch(_ELEMENTWISE.format("mse_backward"), 2_400, 16, 128)
        with _node(record, "MmBackward0", sequence + 2):
            _product(record, "nt", 14_000, (HIDDEN, BATCH), (BATCH, OUTPUTS))
            _product(record, "nn", 10_000, (BATCH, OUTPUTS), (OUTPUTS, HIDDEN))
        with (
            _node(record, "ReluBackward0", sequence + 1),
            record.operator("aten::threshold_backward", (BATCH, HIDDEN), (BATCH, HIDDEN)),
        ):
            record.launch(_ELEMENTWISE.format("threshold"), 4_800, 64, 128)
        with _node(record, "MmBackward0", sequence):
            _product(record, "nt", 16_000, (INPUTS, BATCH), (BATCH, HIDDEN))
            record.memory(-2 * BATCH * HIDDEN)


def training() -> list[dict[str, Any]]:
    """Return the events of the training in the order of their starts."""
    record = Recorder()
    with record.python("train.py(30): main"):
        for step, record.part in enumerate(PARTS):
            with record.user(f"ProfilerStep#{step}"):
                with record.operator("aten::copy_", (BATCH, INPUTS), (BATCH, INPUTS)):
                    record.copy(2 * BATCH * INPUTS)
                _forward(record, 4 * step)
                _backward(record, 4 * step)
                with record.user("Optimizer.step#SGD.step"):
                    weights = ((HIDDEN, INPUTS), (OUTPUTS, HIDDEN))
                    with record.operator("aten::_foreach_add_", *weights):
                        record.launch(
                            "void at::native::multi_tensor_apply_kernel<2>(int)", 8_000, 96, 512
                        )
                record.synchronize()
            record.wait(GAP_NS)
    return sorted(record.events, key=lambda event: (event["ts"], -event.get("dur", 0)))


def make_torch_sample(output: Path) -> None:
    """Write the capture directory; existing files in it are replaced."""
    output.mkdir(parents=True, exist_ok=True)
    header = {
        "schemaVersion": 1, "deviceProperties": [GPU], "displayTimeUnit": "ms",
        "baseTimeNanoseconds": _UTC_NS, "traceName": TRACE,
    }  # fmt: skip
    lines = ",\n".join(json.dumps(event) for event in training())
    text = f'{json.dumps(header)[:-1]},\n"traceEvents": [\n{lines}\n]}}\n'
    (output / TRACE).write_text(text, encoding="utf-8")
    (output / "capture.json").write_text(json.dumps(_capture(), indent=2) + "\n", encoding="utf-8")


def _capture() -> dict[str, Any]:
    return {
        "format_version": 1,
        "capture_id": "synthetic-mlp",
        "synthetic": True,
        "notice": NOTICE,
        "model": "small-mlp",
        "framework": "pytorch",
        "batch_size": BATCH,
        "batch_definition": "vectors",
        "precision": "fp16",
        "optimizer": "sgd",
        "iterations": STEPS,
        "profiler": "torch",
        "files": [{"file": TRACE, "role": "timeline", "tool": "torch"}],
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True)
    make_torch_sample(parser.parse_args(arguments).output)


if __name__ == "__main__":
    main()
