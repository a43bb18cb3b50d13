"""Terms, classes and layers of the memory that a log needs."""

from __future__ import annotations

from tbd_collectors.fit.memory_log import Allocation, MemoryLog
from tbd_collectors.fit.need import CONTEXT_BYTES, CUBLAS_BYTES, need, peak_bytes
from tbd_collectors.fit.sharding import Sharding

MIB = 1 << 20


def log() -> MemoryLog:
    """A weight of 600 B, and two feature maps in turn, of 3 MiB and 5 MiB."""
    return MemoryLog(
        {
            0: Allocation("weight", 600, "fc", "setup", None),
            1: Allocation("feature_map", 3 * MIB, "conv", "forward", 0),
            2: Allocation("feature_map", 5 * MIB, "fc", "forward", 0),
        },
        [(0, True), (1, True), (1, False), (2, True), (2, False)],
    )


def test_on_the_cpu_tensors_alone_count() -> None:
    found = need(log(), "cpu")
    assert found.terms == {"tensors at the peak": 600 + 5 * MIB}
    assert found.classes == {"feature_map": 5 * MIB, "weight": 600}
    assert found.layers == {"fc": {"weight": 600, "feature_map": 5 * MIB}}
    assert peak_bytes(log().changes()) == found.peak


def test_on_a_gpu_blocks_and_segments_are_terms() -> None:
    found = need(log(), "cuda")
    # 600 B take two units of 512 B in a segment of 2 MiB; the maps share one of 20 MiB.
    assert found.terms == {
        "tensors at the peak": 600 + 5 * MIB,
        "rounding of the allocator": 424,
        "cached by the allocator": 22 * MIB - 1024 - 5 * MIB,
        "workspace of cuBLAS": CUBLAS_BYTES,
        "CUDA context and kernels": CONTEXT_BYTES,
    }
    assert found.total == 22 * MIB + CUBLAS_BYTES + CONTEXT_BYTES


def test_sharded_weights_are_gathered() -> None:
    found = need(log(), "cpu", Sharding("fsdp", 4, ()))
    assert found.terms == {"tensors at the peak": 150 + 5 * MIB, "gathered weights": 600}
