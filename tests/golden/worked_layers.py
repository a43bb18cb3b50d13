"""Which layers, and which kinds of work, take the GPU's time."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from sample_facts import Operation, Row, layers, row
from worked_window import kernels_in, stable

# What the kernels of the sample compute.
CLASSES = {
    "scudnn": "CONV",
    "wgrad_alg0_engine": "CONV",
    "bn_fw_tr": "batchnorm",
    "bn_bw": "batchnorm",
    "clamp_min_scalar": "activation",
    "threshold_kernel": "activation",
    "max_pool": "pooling",
    "s16816gemm": "GEMM",
    "CUDAFunctor_add": "elementwise",
    "reduce_kernel": "reduction",
    "softmax_warp": "softmax",
    "nll_loss": "loss",
    "multi_tensor_apply": "optimizer",
}


def kernel_class(name: str) -> str:
    if "nll_loss" in name:  # reduces, too
        return "loss"
    (found,) = {what for part, what in CLASSES.items() if part in name}
    return found


def layer_type(layer: str | None) -> str | None:
    return None if layer is None else layers()[layer]["type"]


def last(value: str | None) -> tuple[bool, str]:
    """Return a key that sorts NULL after every text."""
    return value is None, str(value)


def layer_time() -> list[Row]:
    window = stable()
    assert window.iterations is not None
    kernels = kernels_in(window)
    total = sum(k.duration for k in kernels)
    groups: dict[tuple[str | None, ...], list[Operation]] = defaultdict(list)
    for kernel in kernels:
        groups[kernel.layer, kernel.phase, kernel.layer_evidence].append(kernel)
    rows = []
    for (layer, phase, evidence), same in groups.items():
        time = sum(k.duration for k in same)
        rows.append(
            row(
                layer=layer,
                layer_type=layer_type(layer),
                phase=phase,
                kernels=len(same),
                gpu_ns=time,
                iteration_ns=time / len(window.iterations),
                share_pct=100 * time / total,
                evidence=evidence,
                measured_over=window.measured_over,
            )
        )
    return sorted(rows, key=lambda r: (-r["gpu_ns"], last(r["layer"]), last(r["phase"])))


def dominant_layer(by: str = "layer", attribution: str = "nvtx") -> list[Row]:
    window = stable()
    kernels = kernels_in(window)
    total = sum(k.duration for k in kernels)
    groups: dict[Any, list[Operation]] = defaultdict(list)
    for kernel in kernels:
        if attribution == "kernel class":
            groups[None, kernel_class(kernel.name)].append(kernel)
        else:
            groups[kernel.layer if by == "layer" else None, layer_type(kernel.layer)].append(kernel)
    nobody = sum(k.duration for k in groups.get((None, None), []))
    owned = [key for key in groups if key != (None, None)]
    owned.sort(key=lambda key: (-sum(k.duration for k in groups[key]), *map(last, key)))
    rows = []
    for rank, key in [*enumerate(owned, 1), (None, (None, None))]:
        if same := groups.get(key):
            layer, kind = key
            evidences = sorted({k.layer_evidence for k in same if k.layer_evidence})
            time = sum(k.duration for k in same)
            rows.append(
                row(
                    rank=rank,
                    layer=layer,
                    layer_type=kind,
                    gpu_ns=time,
                    share_pct=100 * time / total,
                    unattributed_pct=100 * nobody / total,
                    kernels=len(same),
                    evidence="kernel name"
                    if attribution == "kernel class"
                    else " + ".join(evidences) or None,
                    measured_over=window.measured_over,
                )
            )
    return rows
