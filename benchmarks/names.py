"""Names of operators, kernels and API functions in a synthetic PyTorch trace."""

from __future__ import annotations

from benchmarks.exports import Export

OPERATORS = ("conv2d", "batch_norm", "relu_", "linear", "softmax", "layer_norm", "gelu", "add_")
_TYPES = ("float", "c10::Half", "c10::BFloat16")
API = (
    "cudaLaunchKernel_v7000",
    "cudaStreamIsCapturing_v10000",
    "cudaEventRecord_v3020",
    "cudaMemcpyAsync_v3020",
    "cudaMemsetAsync_v3020",
    "cudaStreamSynchronize_v3020",
    "cudaHostAlloc_v3020",
)


def operator_texts(
    outer: str, inner: str, sequence: int | None, operation: int, depth: int
) -> list[str]:
    """Return the texts of nested operators, outermost first, as PyTorch's emit_nvtx prints them.

    The text of ``outer`` differs in each call (autograd's ``sequence`` number, ``operation`` id),
    those of the ``depth - 1`` operators ``inner`` repeat.
    """
    numbered = f", seq = {sequence}" if sequence is not None else ""
    channels = 64 << operation % 5
    sizes = (
        f"sizes = [[32, {channels}, 56, 56], [{channels}, 64, 3, 3], [{channels}], [], [], [], "
        "[], [], []], input_op_ids = [(4, 0), (7, 0), (9, 1)]"
    )
    first = f"{outer}{numbered}, op_id = {operation}, {sizes}"
    return [first, *(f"{inner}_{level}, {sizes}" for level in range(1, depth))]


def kernel_name(export: Export, number: int) -> tuple[tuple[int, int, int], int, int, int]:
    """Return the name ids of a kernel, and its grid, block and registers."""
    operator, kind = OPERATORS[number % 8].strip("_"), _TYPES[number // 8]
    short = f"{operator}_{('fwd', 'bwd', 'update')[number // 8]}_kernel"
    tile = 32 << number % 3
    full = f"void at::native::{short}<{kind}, {tile}, {tile}>({kind} const*, {kind}*, int, int)"
    mangled = f"_ZN2at6native{len(short)}{short}IfLi{tile}ELi{tile}EEvPKfPfii"
    names = (export.string(full), export.string(short), export.string(mangled))
    return names, 216 + 108 * (number % 7), 128 << number % 3, 32 + 8 * (number % 12)
