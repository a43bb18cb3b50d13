"""Write the counters of one iteration as Nsight Compute prints them (``ncu --csv --page raw``).

Replayed kernels run alone, `REPLAY_NS` longer than on the timeline, at a fixed clock. An SM is
active for `ACTIVE_PCT` of the elapsed cycles, less if the grid has fewer blocks than the GPU has
SMs. Active SMs hold `ACHIEVED_PCT` of the warps that could be resident.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

from sample_capture.model import CLOCK_MHZ, MAX_WARPS, SHARED_RESERVED, SM_COUNT, Kernel, Network
from sample_capture.recorder import COMPUTE_STREAM, CONTEXT, DEVICE_ID, PID

REPLAY_NS = 300
ACTIVE_PCT = 95
ACHIEVED_PCT = 90
# Warp instructions per cycle and SM that each pipe of GA100 can start.
FMA_RATE, FP16_RATE, XU_RATE, TENSOR_RATE = 2, 4, Fraction(1, 2), Fraction(1, 2)
TENSOR_FLOP_PER_INSTRUCTION = 16 * 8 * 16 * 2  # HMMA.16816
_OPCODES = ("dadd", "dfma", "dmul", "fadd", "ffma", "fmul", "hadd", "hfma", "hmul")

Value = int | float | Fraction | str


def write_counters(path: Path, network: Network) -> None:
    """Write the raw page of the kernels of one iteration in launch order."""
    first = {"ID": "", "Process ID": "", "Process Name": "", "Host Name": "", "Kernel Name": ""}
    header = [*first, "Kernel Time", "Context", "Stream"]
    columns = sorted(_columns())
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n")
        writer.writerow(header + [name for name, _, _ in columns])
        writer.writerow([""] * len(header) + [unit for _, unit, _ in columns])
        for number, kernel in enumerate(iteration_kernels(network)):
            identity = [number, PID, "python", "127.0.0.1", kernel.name]
            place = ["2024-Jan-01 00:00:00", CONTEXT, COMPUTE_STREAM]
            writer.writerow([*identity, *place, *(_text(value(kernel)) for _, _, value in columns)])


def iteration_kernels(network: Network) -> list[Kernel]:
    """Return the kernels of one stable iteration in launch order."""
    forward = [kernel for layer in network.layers for kernel in layer.forward]
    backward = [kernel for layer in reversed(network.layers) for kernel in layer.backward]
    return [*forward, *backward, network.optimizer]


def replayed_ns(kernel: Kernel) -> int:
    """Return the kernel's duration under Nsight Compute, ns."""
    return kernel.base_ns + REPLAY_NS


def cycles(kernel: Kernel) -> int:
    """Return the elapsed cycles, an integer as replayed durations are multiples of 100 ns."""
    return replayed_ns(kernel) * CLOCK_MHZ // 1000


def active_share(kernel: Kernel) -> Fraction:
    """Return the share of the elapsed cycles in which an SM is active, averaged over the SMs."""
    return Fraction(ACTIVE_PCT, 100) * min(Fraction(1), Fraction(kernel.blocks, SM_COUNT))


def warps_active_pct(kernel: Kernel) -> Fraction:
    """Return the achieved occupancy of active SMs, percent."""
    per_sm = max(Fraction(1), Fraction(kernel.blocks, SM_COUNT))
    resident = min(Fraction(min(kernel.residency)), per_sm) * kernel.warps
    return ACHIEVED_PCT * resident / MAX_WARPS


def _columns() -> list[tuple[str, str, Callable[[Kernel], Value]]]:
    return [*_device(), *_launch(), *_work()]


def _device() -> list[tuple[str, str, Callable[[Kernel], Value]]]:
    attributes: dict[str, Value] = {
        "clock_rate": "1410000",
        "compute_capability_major": "8",
        "compute_capability_minor": "0",
        "display_name": "NVIDIA A100-SXM4-40GB",
        "l2_cache_size": "41943040",
        "limits_max_cta_per_sm": "32",
        "max_gpu_frequency_khz": "1410000",
        "max_mem_frequency_khz": "1215000",
        "max_registers_per_block": "65536",
        "max_registers_per_multiprocessor": "65536",
        "max_shared_memory_per_block": "49152",
        "max_shared_memory_per_block_optin": "166912",
        "max_shared_memory_per_multiprocessor": "167936",
        "max_threads_per_block": "1024",
        "max_threads_per_multiprocessor": "2048",
        "max_warps_per_multiprocessor": "64",
        "multiprocessor_count": str(SM_COUNT),
        "num_schedulers_per_multiprocessor": "4",
        "total_memory": "42506321920",
        "warp_size": "32",
    }
    return [(f"device__attribute_{name}", "", _constant(v)) for name, v in attributes.items()]


def _launch() -> list[tuple[str, str, Callable[[Kernel], Value]]]:
    return [
        ("launch__block_dim_x", "block", lambda k: k.threads),
        ("launch__block_dim_y", "block", _constant(1)),
        ("launch__block_dim_z", "block", _constant(1)),
        ("launch__block_size", "", lambda k: k.threads),
        ("launch__context_id", "", _constant(CONTEXT)),
        ("launch__device_id", "", _constant(DEVICE_ID)),
        ("launch__grid_dim_x", "", lambda k: k.grid[0]),
        ("launch__grid_dim_y", "", lambda k: k.grid[1]),
        ("launch__grid_dim_z", "", _constant(1)),
        ("launch__grid_size", "", lambda k: k.blocks),
        ("launch__occupancy_limit_blocks", "block", lambda k: k.residency.blocks),
        ("launch__occupancy_limit_registers", "block", lambda k: k.residency.registers),
        ("launch__occupancy_limit_shared_mem", "block", lambda k: k.residency.shared),
        ("launch__occupancy_limit_warps", "block", lambda k: k.residency.warps),
        ("launch__registers_per_thread", "register/thread", lambda k: k.registers),
        ("launch__shared_mem_config_size", "byte", lambda k: k.carve_out),
        ("launch__shared_mem_per_block_allocated", "byte/block", lambda k: k.shared_allocated),
        ("launch__shared_mem_per_block_driver", "byte/block", _constant(SHARED_RESERVED)),
        ("launch__shared_mem_per_block_dynamic", "byte/block", lambda k: k.shared[1]),
        ("launch__shared_mem_per_block_static", "byte/block", lambda k: k.shared[0]),
        ("launch__stream_id", "", _constant(COMPUTE_STREAM)),
        ("launch__thread_count", "thread", lambda k: k.blocks * k.threads),
        (
            "launch__waves_per_multiprocessor",
            "",
            lambda k: Fraction(k.blocks, SM_COUNT * min(k.residency)),
        ),
    ]


def _work() -> list[tuple[str, str, Callable[[Kernel], Value]]]:
    counts: list[tuple[str, str, Callable[[Kernel], Value]]] = [
        (f"smsp__sass_thread_inst_executed_op_{opcode}_pred_on.sum", "inst", _executed(opcode))
        for opcode in _OPCODES
    ]
    ffma_peak = "sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained"
    return [
        *counts,
        ("dram__bytes_read.sum", "Mbyte", lambda k: k.dram[0] / 1e6),
        ("dram__bytes_write.sum", "Mbyte", lambda k: k.dram[1] / 1e6),
        ("gpc__cycles_elapsed.avg.per_second", "cycle/nsecond", _constant(CLOCK_MHZ / 1000)),
        ("gpc__cycles_elapsed.max", "cycle", cycles),
        ("gpu__time_duration.sum", "usecond", lambda k: replayed_ns(k) / 1000),
        ("sm__cycles_active.avg", "cycle", lambda k: cycles(k) * active_share(k)),
        ("sm__cycles_elapsed.avg.per_second", "cycle/nsecond", _constant(CLOCK_MHZ / 1000)),
        ("sm__inst_executed_pipe_tensor.sum", "inst", _tensor_instructions),
        ("sm__maximum_warps_per_active_cycle_pct", "%", lambda k: k.occupancy_pct),
        ("sm__ops_path_tensor_src_fp16_dst_fp32.sum", "", lambda k: k.tensor_flop),
        (ffma_peak, "inst/cycle", _constant(SM_COUNT * 64)),
        ("sm__warps_active.avg.pct_of_peak_sustained_active", "%", warps_active_pct),
        *_pipe("fma", FMA_RATE, lambda k: _warps_executed(k, "fadd", "ffma", "fmul")),
        *_pipe("fp16", FP16_RATE, lambda k: _warps_executed(k, "hadd", "hfma", "hmul")),
        *_pipe("tensor_op_hmma", TENSOR_RATE, _tensor_instructions),
        *_pipe("xu", XU_RATE, lambda k: Fraction(k.special, 32)),
    ]


def _pipe(
    pipe: str, rate: int | Fraction, executed: Callable[[Kernel], int | Fraction]
) -> list[tuple[str, str, Callable[[Kernel], Value]]]:
    # Utilisation in percent, over elapsed and over active cycles.

    def elapsed(kernel: Kernel) -> Fraction:
        return 100 * Fraction(executed(kernel)) / (SM_COUNT * cycles(kernel) * rate)

    name = f"sm__inst_executed_pipe_{pipe}.avg.pct_of_peak_sustained"
    return [
        (f"{name}_elapsed", "%", elapsed),
        (f"{name}_active", "%", lambda k: elapsed(k) / active_share(k)),
    ]


def _executed(opcode: str) -> Callable[[Kernel], int]:
    return lambda kernel: kernel.instructions.get(opcode, 0)


def _warps_executed(kernel: Kernel, *opcodes: str) -> Fraction:
    return Fraction(sum(kernel.instructions.get(opcode, 0) for opcode in opcodes), 32)


def _tensor_instructions(kernel: Kernel) -> int:
    return kernel.tensor_flop // TENSOR_FLOP_PER_INSTRUCTION


def _constant(value: Value) -> Callable[[Kernel], Value]:
    return lambda _: value


def _text(value: Value) -> str:
    # Like ncu: thousands separators, and two decimals for non-integers.
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) else f"{float(value):,.2f}"
