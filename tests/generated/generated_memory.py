"""Generated memory histories: allocations, releases, segments, stacks and readings."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from made_trace import MadeTrace

KIB = 1024
CLASSES = ["weight", "weight_gradient", "feature_map", "activation_gradient", "workspace",
    "temporary", "optimizer_state", "optimizer_temporary", "buffer", "input", "communication",
    "feature_map", "feature_map", "weight", "weight", "weight", "unknown"]  # fmt: skip
PHASES = ["setup", "forward", "backward", "optimizer", None]
FRAMES = {
    1: [("forward", "model.py", None), ("_call_impl", "module.py", "torch.nn.modules.module")],
    2: [("torch::autograd::Engine::evaluate_function", None, None), ("backward", "t.py", None)],
    3: [("step", "adam.py", "torch.optim.adam"), ("train", "train.py", None)],
    4: [("at::_ops::addmm::call", None, None), ("forward", "head.py", "head")],
    5: [("at::cuda::getCurrentCUDABlasHandle", None, None), ("cublasWorkspace", None, None)],
    6: [("c10d::ProcessGroupNCCL::allreduce", None, None), ("main", "train.py", None)],
    7: [("THPVariable_to", None, None), ("load", "data.py", None)],
    8: [("zero_grad", "optimizer.py", "torch.optim.optimizer"), ("train", "train.py", None)],
    9: [("__init__", "linear.py", "torch.nn.modules.linear"), ("main", "train.py", None)],
    10: [("_make_grads", "__init__.py", "torch.autograd"), ("main", "train.py", None)],
    11: [("torch::autograd::Engine::thread", None, None),
         ("forward", "block.py", "torch.nn.modules.block")],
}  # fmt: skip


@dataclass
class History:
    """Events of one allocator on one device.

    Attributes:
        made: where the rows go.
        dice: source of randomness.
        head: columns of all rows.
        states: whether the program states classes, else they follow from stacks.
        grows: whether segments change after the first ones, and are listed at the end.
    """

    made: MadeTrace
    dice: Random
    head: dict[str, Any]
    states: bool
    grows: bool
    sequence: int = -1
    address: int = 1 << 30
    live: dict[int, int] = field(default_factory=dict)

    def run(self, iterations: int) -> None:
        """Add a set-up and iterations; some allocations live on."""
        for stack, frames in FRAMES.items():
            for depth, (function, file, module) in enumerate(frames):
                self.made.add("memory_stack", trace_id=self.head["trace_id"], stack_id=stack,
                    depth=depth, function=function, file=file, module=module)  # fmt: skip
        if self.grows:
            for sequence in (-1, None):
                self.total(sequence)
        for number in range(6 if self.head["device_id"] == 0 else 0):
            self.event("segment_allocate", self.address + number * (20 << 20), 20 << 20)
        for _ in range(3):
            self.allocate("setup", None, 9)
        for iteration in range(iterations):
            self.iteration(iteration)
        if self.grows:
            self.final_state()

    def iteration(self, number: int) -> None:
        self.made.add("memory_annotation", trace_id=self.head["trace_id"], device_id=0,
            timestamp_ns=10 * self.sequence, stage="START", name=f"step {number}")  # fmt: skip
        stacks = {"forward": [1, 4, 5, 7, None], "backward": [2, 6, 10, 11, None],
            "optimizer": [3, 8]}  # fmt: skip
        for phase, choices in stacks.items():
            for _ in range(self.dice.randint(1, 4)):
                self.allocate(phase, number, self.dice.choice(choices))
                if self.live and self.dice.random() < 0.6:
                    self.release(phase, number)
        self.reading()
        self.made.add("memory_annotation", trace_id=self.head["trace_id"], device_id=0,
            timestamp_ns=10 * self.sequence, stage="END", name=f"step {number}")  # fmt: skip

    def event(self, operation: str, address: int, size: int, **row: Any) -> None:
        self.sequence += 1
        time = 10 * self.sequence if self.dice.random() < 0.95 else None
        self.made.add("memory_event", **self.head, sequence=self.sequence, timestamp_ns=time,
            operation=operation, address=address, bytes=size, **row)  # fmt: skip

    def allocate(self, phase: str, iteration: int | None, stack: int | None) -> None:
        self.address += 1 << 20
        size = self.dice.choice([0, 100, 512, 700, 2 * KIB, 2 * KIB, 40 * KIB, 300 * KIB])
        self.live[self.address] = size
        stated: dict[str, Any] = {"stack_id": stack, "stream_id": self.dice.choice([0, 0, 7])}
        if self.states:
            stated = {"class": self.dice.choice(CLASSES), "phase": phase, "iteration": iteration,
                "layer": self.dice.choice(["conv1", "fc", None]), "dtype": "float32",
                "operator": self.dice.choice(["addmm", None]), "shape": "[4]"}  # fmt: skip
        rounded = self.dice.choice([None, (size + 511) // 512 * 512])
        self.event("allocate", self.address, size, requested_bytes=self.dice.choice([size, None]),
            allocated_bytes=rounded, **stated)  # fmt: skip
        if self.dice.random() < 0.2:
            self.event("classify", self.address, size, **{"class": self.dice.choice(CLASSES)},
                layer=self.dice.choice(["conv2", None]))  # fmt: skip
        if self.grows and self.dice.random() < 0.2:
            change = self.dice.choice(["segment_allocate", "segment_map", "segment_free",
                "segment_unmap"])  # fmt: skip
            self.event(change, self.address, 2 << 20)

    def release(self, phase: str, iteration: int) -> None:
        address = self.dice.choice(list(self.live))
        stated = {"phase": phase, "iteration": iteration} if self.states else {"stack_id": 8}
        self.event("free", address, self.live.pop(address), **stated)
        if self.dice.random() < 0.05:
            older = {"stack_id": 8} if self.dice.random() < 0.5 else {"class": "weight_gradient"}
            self.event("free", self.dice.randint(1, 9), 64, **older)  # older than the recording

    def total(self, sequence: int | None) -> None:
        self.made.add("memory_total", **self.head, sequence=sequence, allocated_bytes=900 * KIB,
            reserved_bytes=self.dice.choice([2 << 20, 4 << 20]),
            requested_bytes=self.dice.choice([None, 800 * KIB]))  # fmt: skip

    def reading(self) -> None:
        self.made.add("memory_device", trace_id=self.head["trace_id"],
            device_id=self.head["device_id"], timestamp_ns=10 * self.sequence,
            used_bytes=self.dice.choice([1 << 20, 8 << 20, None]), total_bytes=16 << 20,
            reserved_bytes=self.dice.choice([None, None, 3 << 20]))  # fmt: skip

    def final_state(self) -> None:
        """Add segments, each with a live block, most with others."""
        states = ["active_allocated", "inactive", "active_pending_free", "unrecorded"]
        for number in range(4):
            start = (8 + number) << 21
            sizes = [self.dice.choice([512, 4 * KIB, 200 * KIB]) for _ in states]
            held = self.dice.choice([1, 2, 3, 4, 4])
            where = {key: self.head[key] for key in ("trace_id", "process_id", "device_id")}
            self.made.add("memory_segment", **where, allocator=self.head["allocator"],
                stream_id=self.dice.choice([0, 7]), address=start, total_bytes=sum(sizes),
                allocated_bytes=sizes[0], active_bytes=sizes[0] + sizes[2],
                requested_bytes=self.dice.choice([sizes[0] - 12, None]),
                segment_type=self.dice.choice(["small", "large"]),
                pool=self.dice.choice(["(0, 0)", "(0, 1)", None]),
                is_expandable=self.dice.choice([True, False, None]))  # fmt: skip
            for size, state in list(zip(sizes, states, strict=True))[:held]:
                self.made.add("memory_block", **where, segment_address=(8 + number) << 21,
                    address=start, bytes=size, requested_bytes=self.dice.choice([size - 5, None]),
                    state=state, stack_id=self.dice.choice([1, 5, None]))  # fmt: skip
                start += size


def add_exhausted_device(made: MadeTrace, trace_id: str) -> None:
    """Add a device on which an allocation fails, with a free block between two live ones."""
    where = {"trace_id": trace_id, "process_id": 1, "device_id": 2, "allocator": "torch"}
    start = 1 << 32
    events = [("segment_allocate", 0, 60), ("allocate", 0, 10), ("allocate", 40, 20)]
    for sequence, (operation, offset, size) in enumerate(events):
        made.add("memory_event", **where, sequence=sequence, timestamp_ns=10 * sequence,
            operation=operation, address=start + (offset << 20), bytes=size << 20,
            requested_bytes=size << 20, allocated_bytes=size << 20)  # fmt: skip
    made.add("memory_failure", **where, sequence=3, timestamp_ns=30, requested_bytes=50 << 20,
        device_free_bytes=4 << 20)  # fmt: skip
    made.add("memory_segment", **where, stream_id=0, address=start, total_bytes=60 << 20,
        allocated_bytes=30 << 20, active_bytes=30 << 20, requested_bytes=30 << 20,
        segment_type="large", pool="(0, 0)", is_expandable=False)  # fmt: skip


def add_plan(made: MadeTrace, dice: Random, trace_id: str) -> None:
    """Add a compiler's memory plan."""
    for allocation in range(4):
        size = dice.choice([64, 4096, 4096, 100_000])
        for value in range(dice.randint(1, 3)):
            made.add("memory_plan", trace_id=trace_id, computation="main", allocation=allocation,
                bytes=size, offset_bytes=dice.choice([0, size // 2]), value_name=f"v{value}",
                value_bytes=size // 2, shape="f32[16]", kind=dice.choice(
                    ["parameter", "preallocated-temp", "output", "constant", "thread-local"]),
                **{"class": dice.choice(CLASSES)})  # fmt: skip
