"""Generated timelines: training loops of random kernels, ranges, copies and counters.

Times lie on a coarse grid, so that starts and ends coincide often, as the limits of comparisons
need. Each kind of row can lack what real exports lack: the process, the device, the launch.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from random import Random
from typing import Any

from generated_names import (
    COLLECTIVES,
    COUNTERS,
    DEVICES,
    INPUTS,
    KERNELS,
    LAYERS,
    NODES,
    OPERATORS,
    SAMPLED,
)
from made_trace import MadeTrace


@dataclass
class Timeline:
    """A training loop of one process on one or two devices.

    Attributes:
        made: where the rows go.
        dice: source of randomness.
        trace_id: the trace.
        process: key of the process.
        style: how the program marks its iterations and layers.
    """

    made: MadeTrace
    dice: Random
    trace_id: str
    process: int
    style: str
    grid: int = 10  # ns, of most times
    has_graphs: bool = False
    at: int = 1000  # time of the host, ns
    number: int = 0  # of the last launch
    free: int = 1000  # time at which the GPU has nothing to do, ns
    sequence: int = 0  # of autograd

    def run(self, iterations: int) -> None:
        """Add the rows of the loop."""
        self.device(0)
        self.device(1)
        for self.step in range(iterations):
            if self.style == "host":
                self.host_iteration()
            else:
                self.iteration()
        self.call("cudaDeviceSynchronize", took=self.some(5))
        for at in range(1000, self.at, 7 * self.grid):
            self.samples(at)

    def some(self, most: int) -> int:
        """Return a time of at most so many units of the grid."""
        return self.grid * self.dice.randint(0, most)

    def maybe(self, share: float) -> bool:
        return self.dice.random() < share

    def add(self, table: str, **row: Any) -> None:
        self.made.add(table, trace_id=self.trace_id, process_id=self.process, **row)

    def device(self, device_id: int) -> None:
        described = self.dice.choice(DEVICES)
        self.add("device", device_id=device_id, gpu_id=device_id, uuid=f"GPU-{device_id}",
            **described)  # fmt: skip

    def call(self, name: str, took: int | None = None, **row: Any) -> None:
        took = self.grid if took is None else took
        self.made.add_call(self.at, self.at + took, name, trace_id=self.trace_id,
            process_id=self.process, **row)  # fmt: skip
        self.at += took

    def mark(self, start: int, text: str | None, **row: Any) -> int:
        """Add a range from ``start`` to now."""
        more: dict[str, Any] = {"trace_id": self.trace_id, "process_id": self.process}
        if self.style == "tbd_trace":
            more |= {"domain_id": 3, "domain": "tbd_trace"}
        return self.made.add_range(start, self.at, text, **(more | row))

    def host_iteration(self) -> None:
        """Add an iteration of a program without a GPU."""
        start = self.at
        self.at += self.some(5)
        self.mark(start, self.dice.choice(["data", "enumerate(DataLoader)"]))
        for layer in LAYERS:
            begin = self.at
            self.at += self.some(6)
            self.mark(begin, f"layer:{layer}", domain="tbd_trace", domain_id=3)
        self.at += self.some(9)
        self.mark(start, f"step {self.step}")

    def iteration(self) -> None:
        start = self.at
        self.at += self.some(2)
        self.data()
        texts = {"plain": ("forward", "backward", "optimizer"),
            "tbd_trace": ("phase:forward", "phase:backward", "phase:optimizer"),
            "torch": ("forward", "backward", "Optimizer.step#SGD.step")}  # fmt: skip
        forward, backward, optimizer = texts.get(self.style, (None, None, None))
        begin, first = self.at, self.sequence
        for layer in range(len(LAYERS)):
            self.layer(layer)
        if forward:
            self.mark(begin, forward)
        begin = self.at
        for layer in reversed(range(len(LAYERS))):
            self.layer(layer, backward=True, sequence=first + layer)
        if self.maybe(0.5):
            self.collective()
        if backward:
            self.mark(begin, backward)
        begin = self.at
        self.launch(KERNELS[7])
        if optimizer:
            self.mark(begin, optimizer, source="python" if self.style == "torch" else "nvtx")
        if self.has_graphs and self.maybe(0.6):
            self.graph()
        self.end_of_iteration(start)

    def end_of_iteration(self, start: int) -> None:
        if self.maybe(0.4):
            self.call("cudaStreamSynchronize", took=self.some(4))
            at = {"start_ns": self.at - self.grid, "end_ns": self.at}
            self.add("synchronization", synchronization_id=self.made.next_id(), device_id=0,
                stream_id=7, sync_type="stream synchronize", **at)  # fmt: skip
        texts = {"plain": f"step {self.step}", "tbd_trace": f"iteration:{self.step}",
            "torch": f"ProfilerStep#{self.step}", "family": f"Coarse Level {self.step}",
            "nested": f"iteration {self.step // 2}"}  # fmt: skip
        if self.style == "marks":
            self.made.add_mark(start, f"iteration {self.step}", trace_id=self.trace_id,
                process_id=self.process)  # fmt: skip
        elif text := texts.get(self.style):
            self.mark(start, text, source="python" if self.style == "torch" else "nvtx")

    def data(self) -> None:
        start = self.at
        self.at += self.some(6)
        self.copy("HtoD", src_kind=self.dice.choice(["pageable", "pinned", None]))
        if self.maybe(0.6):
            texts = {"tbd_trace": "phase:data", "torch": "enumerate(DataLoader)#_Iter.__next__"}
            self.mark(start, texts.get(self.style, "data loading"))

    def layer(self, number: int, backward: bool = False, sequence: int = 0) -> None:
        start = self.at
        where = {"thread_id": 2 if backward and self.style in ("numbered", "torch") else 1}
        if not backward:
            self.sequence += 1
            sequence = self.sequence - 1
        repeats = self.style == "none"  # iterations follow from the order of the kernels
        for _ in range(1 if repeats else self.dice.randint(1, 2)):
            kernel = KERNELS[number + (4 if backward else 0)]
            other = kernel if repeats else self.dice.choice(KERNELS)
            self.launch(self.dice.choice([kernel, kernel, other]), **where)
            if self.maybe(0.15):
                self.copy("DtoD", **where)
        self.at += self.some(1)
        name, operator = LAYERS[number], OPERATORS[number]
        if self.style == "numbered":
            text = f"{operator}, seq = {sequence}, op_id = {self.number}"
            if backward:
                node = f"autograd::engine::evaluate_function: {NODES[number]}"
                text = f"{node}, seq = {sequence}, op_id = {self.number}"
            self.mark(start, text, **where)
        elif self.style == "torch":
            self.torch_layer(number, start, backward)
        elif self.style == "tbd_trace":
            self.mark(start, f"layer_backward:{name}" if backward else f"layer:{name}")
        elif self.style != "none" and self.maybe(0.9):
            self.mark(start, f"{name}_backward" if backward else name,
                domain=self.dice.choice([None, None, "cudnn"]))  # fmt: skip

    def torch_layer(self, number: int, start: int, backward: bool) -> None:
        classes = ["Conv2d", "BatchNorm2d", "Linear", "MultiheadAttention"]
        if backward:
            self.mark(start, f"autograd::engine::evaluate_function: {NODES[number]}", thread_id=2,
                source="operator")  # fmt: skip
            return
        operator = self.dice.choice([*INPUTS, OPERATORS[number]])
        annotation = self.mark(start, operator, source="operator")
        if operator in INPUTS and self.maybe(0.8):
            dims, types, values = (json.dumps(part) for part in INPUTS[operator])
            self.made.add("operator_input", trace_id=self.trace_id, annotation_id=annotation,
                operator=operator, input_dims=dims, input_types=types,
                input_values=values)  # fmt: skip
        self.mark(start, f"{classes[number]}_{number}", source="module")
        self.mark(start, "train.py(12): step", source="frame")

    def launch(self, name: str, **row: Any) -> None:
        """Launch a kernel; some lack the launch, the process or the configuration."""
        self.number += 1
        correlation = {"correlation_id": self.number if self.maybe(0.95) else None}
        thread = {"thread_id": row.pop("thread_id", 1)}
        device_id = 1 if self.maybe(0.1) else 0
        if self.maybe(0.95):
            call = self.dice.choice(["cudaLaunchKernel", "cudaLaunchKernel", "cuLaunchKernel"])
            self.call(call, took=self.grid + self.some(1), **correlation, **thread)
        takes = self.dice.choice(
            [0, self.grid, self.grid, 3 * self.grid, 5 * self.grid, 5 * self.grid, 20 * self.grid]
        )
        start = max(self.at, self.free if self.maybe(0.8) else 0) + self.some(1)
        self.free = max(self.free, start + takes)
        block = self.dice.choice([32, 128, 256, 1000])
        grid = self.dice.choice([1, 8, 200, 3000])
        shape: dict[str, Any] = {
            "grid_x": grid, "grid_y": 1, "grid_z": 1, "block_x": block, "block_y": 1, "block_z": 1,
            "registers_per_thread": self.dice.choice([16, 40, 128, None]),
            "static_shared_bytes": 1024, "context_id": 1,
            "dynamic_shared_bytes": self.dice.choice([0, 16384]),
        }  # fmt: skip
        kernel = self.made.add_kernel(
            start, start + takes, name, trace_id=self.trace_id,
            process_id=None if self.maybe(0.02) else self.process, device_id=device_id,
            stream_id=self.dice.choice([7, 7, 7, 13]), **correlation,
            **(shape if self.maybe(0.9) else {}),
        )  # fmt: skip
        if self.maybe(0.25):
            self.counters(kernel, name, takes)

    def counters(self, kernel: int, name: str, takes: int) -> None:
        tool = "nvprof" if self.style == "plain" else "ncu"
        for metric in COUNTERS[tool]:
            if self.maybe(0.9):
                value = float(self.dice.choice([0, 3, 12, 25, 60, 99, 100, 5000, 70_000]))
                if "duration" in metric:
                    value = float(takes)
                if "occupancy" in metric:
                    value = self.dice.choice([0.1, 0.5, 1.0])
                self.made.add_metric(kernel, metric, value, trace_id=self.trace_id, tool=tool,
                    kernel_name=name, device_id=0)  # fmt: skip

    def collective(self) -> None:
        self.number += 1
        name = self.dice.choice(COLLECTIVES)
        begin = self.at
        self.call("cudaLaunchKernelExC", correlation_id=self.number)
        self.mark(begin, self.dice.choice(["nccl:all_reduce", "nccl:all_gather", "ncclAllReduce"]))
        start = self.at + self.some(3)
        kernel = self.made.add_kernel(start, start + self.grid + self.some(9), name,
            stream_id=20, trace_id=self.trace_id, process_id=self.process,
            correlation_id=self.number)  # fmt: skip
        if self.maybe(0.7):
            self.add("collective_record", record_id=self.made.next_id(),
                source=self.dice.choice(["kernel", "operator"]), kind=self.dice.choice(
                    ["allreduce", "_allgather_base", None]),
                start_ns=begin, end_ns=self.at, thread_id=1, kernel_id=kernel, group_name="0",
                group_ranks="[0, 1]", group_size=2, sequence=self.number,
                input_elements=self.dice.choice([1000, 50_000, None]), output_elements=1000,
                dtype=self.dice.choice(["Float", "Half", None]))  # fmt: skip

    def copy(self, direction: str, thread_id: int = 1, **row: Any) -> None:
        self.number += 1
        name = self.dice.choice(["cudaMemcpyAsync", "cudaMemcpy"])
        self.call(name, correlation_id=self.number, thread_id=thread_id, took=self.some(2))
        start = self.at + self.some(2)
        self.made.add_memcpy(start, start + self.some(6), direction=direction,
            bytes=self.dice.choice([0, 64, 4096, 10**6]), trace_id=self.trace_id,
            process_id=self.process, correlation_id=self.number,
            stream_id=self.dice.choice([7, 14]), **row)  # fmt: skip
        if self.maybe(0.3):
            self.made.add_memset(start + self.grid, start + 2 * self.grid, bytes=64,
                memory_kind="device", trace_id=self.trace_id,
                process_id=self.process)  # fmt: skip

    def graph(self) -> None:
        self.number += 1
        self.call("cudaGraphLaunch", correlation_id=self.number)
        start = self.at + self.some(2)
        self.made.add_graph(start, start + self.some(8), trace_id=self.trace_id, graph_id=4,
            process_id=self.process, correlation_id=self.number, graph_exec_id=5)  # fmt: skip

    def samples(self, at: int) -> None:
        for metric in SAMPLED:
            if self.maybe(0.9):
                value = float(self.dice.choice([0, 5, 50, 99, 100]))
                self.made.add("gpu_sample", trace_id=self.trace_id, timestamp_ns=at, gpu_id=0,
                    metric=metric, unit="%", value=value)  # fmt: skip
        self.add("cpu_sample", timestamp_ns=at, thread_id=self.dice.choice([1, 1, 2, None]),
            cpu=self.dice.randint(0, 3),
            cycles=self.dice.choice([None, 1000, 1000, 0]))  # fmt: skip
