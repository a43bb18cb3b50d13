"""What the sample's network is made of: kernels, layers, and how many blocks fit on an SM."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

BATCH_SIZE = 32
FP32, FP16 = 4, 2

# GA100, compute capability 8.0
SM_COUNT = 108
CLOCK_MHZ = 1410
MAX_WARPS, MAX_BLOCKS = 64, 32
_REGISTERS_PER_PARTITION, _PARTITIONS, _REGISTER_UNIT = 16_384, 4, 256
SHARED_RESERVED = 1_024
_SHARED_PER_SM, _SHARED_UNIT = 167_936, 128
_CARVE_OUTS_KIB = (8, 16, 32, 64, 100, 132, 164)


class Residency(NamedTuple):
    """Blocks per SM that each resource allows."""

    warps: int
    registers: int
    shared: int
    blocks: int


@dataclass(frozen=True)
class Kernel:
    """One kernel of one iteration.

    Attributes:
        name: demangled name; the short name is derived from it.
        base_ns: duration in a stable iteration without jitter, ns.
        grid: blocks (x, y).
        threads: threads per block.
        registers: 32-bit registers per thread.
        shared: static and dynamic shared memory per block, bytes.
        instructions: executed thread instructions by opcode (fadd, fmul, ffma, hadd).
        tensor_flop: floating-point operations done by tensor cores.
        special: executed thread instructions of the special-function pipe (XU).
        dram: bytes read from and written to device memory.
    """

    name: str
    base_ns: int
    grid: tuple[int, int]
    threads: int
    registers: int
    shared: tuple[int, int] = (0, 0)
    instructions: dict[str, int] = field(default_factory=dict)
    tensor_flop: int = 0
    special: int = 0
    dram: tuple[int, int] = (0, 0)

    @property
    def warps(self) -> int:
        """Warps per block."""
        return -(-self.threads // 32)

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        return self.grid[0] * self.grid[1]

    @property
    def residency(self) -> Residency:
        """Blocks that an SM of compute capability 8.0 can hold, by limiting resource."""
        per_warp = _round_up(self.registers * 32, _REGISTER_UNIT)
        warps = _REGISTERS_PER_PARTITION // per_warp * _PARTITIONS
        shared = _SHARED_PER_SM // self.shared_allocated
        return Residency(MAX_WARPS // self.warps, warps // self.warps, shared, MAX_BLOCKS)

    @property
    def shared_allocated(self) -> int:
        """Shared memory that one block takes, with what the system reserves, bytes."""
        return _round_up(sum(self.shared), _SHARED_UNIT) + SHARED_RESERVED

    @cached_property
    def carve_out(self) -> int:
        """Smallest shared-memory configuration of an SM that holds the resident blocks, bytes."""
        needed = min(self.residency) * self.shared_allocated
        return next(kib * 1024 for kib in _CARVE_OUTS_KIB if kib * 1024 >= needed)

    @property
    def occupancy_pct(self) -> float:
        """Theoretical occupancy: resident warps in percent of the maximum."""
        return 100 * min(self.residency) * self.warps / MAX_WARPS

    @cached_property
    def short_name(self) -> str:
        """Base name without return type, namespaces, template arguments and parameters."""
        plain = self.name.replace("<unnamed>::", "").split("<")[0].split("(")[0]
        return plain.rsplit(" ", 1)[-1].rsplit("::", 1)[-1]


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One layer: what ``layers.json`` says of it, and its GPU work in order.

    Attributes:
        name: name, as in the NVTX ranges.
        type: class of the layer.
        outputs: output elements per sample.
        forward: kernels of the forward pass.
        backward: kernels of the backward pass.
        flop: forward and backward floating-point operations per sample.
        parameters: trainable parameters.
        element_bytes: bytes of one weight and one output element.
        fill_bytes: bytes that the backward pass fills with zeros first.
        workspace_bytes: device memory allocated for the backward pass only.
        search: kernel that runs before the others in the first iteration only.
    """

    name: str
    type: str
    outputs: int
    forward: tuple[Kernel, ...]
    backward: tuple[Kernel, ...]
    flop: tuple[int, int]
    parameters: int = 0
    element_bytes: int = FP32
    fill_bytes: int = 0
    workspace_bytes: int = 0
    search: Kernel | None = None


@dataclass(frozen=True)
class Network:
    """The layers in forward order and the kernel of the optimizer."""

    layers: tuple[Layer, ...]
    optimizer: Kernel

    @property
    def weight_bytes(self) -> int:
        """Bytes of all weights."""
        return sum(layer.parameters * layer.element_bytes for layer in self.layers)

    @property
    def feature_map_bytes(self) -> int:
        """Bytes of the feature maps of one batch."""
        return BATCH_SIZE * sum(layer.outputs * layer.element_bytes for layer in self.layers)


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
