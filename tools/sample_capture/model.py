"""Kernels and layers of the sample's network, and the number of blocks that fit on an SM."""

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
    """A kernel in an iteration."""

    name: str  # demangled
    base_ns: int  # duration in a stable iteration without jitter
    grid: tuple[int, int]  # blocks (x, y)
    threads: int  # per block
    registers: int  # 32-bit registers per thread
    shared: tuple[int, int] = (0, 0)  # static and dynamic shared memory per block, bytes
    instructions: dict[str, int] = field(default_factory=dict)  # thread instructions by opcode
    tensor_flop: int = 0  # of the tensor cores
    special: int = 0  # thread instructions of the special-function pipe (XU)
    dram: tuple[int, int] = (0, 0)  # bytes read from and written to device memory

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
        """Shared memory of a block in bytes, with the system's reservation."""
        return _round_up(sum(self.shared), _SHARED_UNIT) + SHARED_RESERVED

    @cached_property
    def carve_out(self) -> int:
        """Smallest shared-memory configuration of an SM for the resident blocks, bytes."""
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
    """A layer: its entry in ``layers.json`` and its GPU work in order."""

    name: str  # in NVTX ranges
    type: str  # class name
    outputs: int  # elements per sample
    forward: tuple[Kernel, ...]
    backward: tuple[Kernel, ...]
    flop: tuple[int, int]  # forward and backward, per sample
    parameters: int = 0  # trainable
    element_bytes: int = FP32  # of a weight and an output element
    fill_bytes: int = 0  # zero-filled at the start of the backward pass
    workspace_bytes: int = 0  # device memory allocated during the backward pass only
    search: Kernel | None = None  # runs first, in the first iteration only


@dataclass(frozen=True)
class Network:
    """The layers in forward order and the optimizer's kernel."""

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
