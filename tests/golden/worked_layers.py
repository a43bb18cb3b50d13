"""Which layers, and which kinds of work, take the GPU's time, and the host's beside it."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from sample_facts import Operation, Row, layers, row, timeline
from worked_host import last, sample_host_times
from worked_window import kernels_in, steady

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


def layer_time(by: str = "layer") -> list[Row]:
    window = steady()
    assert window.iterations is not None
    kernels = kernels_in(window)
    total = sum(k.duration for k in kernels)
    groups: dict[tuple[str | None, ...], list[Operation]] = defaultdict(list)
    for kernel in kernels:
        name, kind, evidence = _owner(kernel, by)
        groups[name, kind, kernel.phase, evidence].append(kernel)
    rows = []
    for (name, kind, phase, evidence), same in groups.items():
        time = sum(k.duration for k in same)
        rows.append(
            row(
                layer=name,
                layer_type=kind,
                phase=phase,
                kernels=len(same),
                gpu_ns=time,
                host_ns=_host_ns(by, name, phase, evidence),
                clock="gpu",
                iteration_ns=time / len(window.iterations),
                share_pct=100 * time / total,
                evidence=evidence,
                measured_over=window.measured_over,
            )
        )
    return sorted(rows, key=lambda r: (-r["gpu_ns"], last(r["layer"]), last(r["phase"])))


def _owner(kernel: Operation, by: str) -> tuple[str | None, str | None, str | None]:
    """Return what a kernel counts for: its name, its type and the evidence."""
    match by:
        case "layer":
            return kernel.layer, layer_type(kernel.layer), kernel.layer_evidence
        case "op":
            return kernel.ranges[-1].text, None, "nvtx"
        case "class":
            found = kernel_class(kernel.name)
            return found, found, "kernel name"
    return None, None, None  # no module of PyTorch is in the sample


def _host_ns(by: str, name: str | None, phase: str | None, evidence: str | None) -> int | None:
    """Return the host's time of a layer, or of a phase where nothing is named in it."""
    times = sample_host_times()
    match by:
        case "layer":
            return times.get((name, phase, evidence))
        case "module":
            return sum(time for (_, of, _), time in times.items() if of == phase)
    return None


def dominant_layer(by: str = "layer", attribution: str = "nvtx", clock: str = "gpu") -> list[Row]:
    window = steady()
    assert window.iterations is not None
    kernels: dict[Any, list[Operation]] = defaultdict(list)
    host: dict[Any, int] = defaultdict(int)
    ways: dict[Any, set[str]] = defaultdict(set)
    for kernel in kernels_in(window):
        if attribution == "kernel class":
            key, way = (None, kernel_class(kernel.name)), "kernel name"
        else:
            key, way = key_of(kernel.layer, by), kernel.layer_evidence
        kernels[key].append(kernel)
        ways[key] |= {way} - {None} if clock == "gpu" else set()
    if attribution != "kernel class":
        for (layer, _, way), time in sample_host_times().items():
            host[key_of(layer, by)] += time
            ways[key_of(layer, by)] |= {way} - {None} if clock == "host" else set()
    gpu = {key: sum(k.duration for k in same) for key, same in kernels.items()}
    times = gpu if clock == "gpu" else host
    # On the host all there is are the iterations: the main thread waits for the autograd thread.
    iterations = [timeline().iterations[i] for i in window.iterations]
    whole = sum(gpu.values()) if clock == "gpu" else sum(r.end - r.start for r in iterations)
    owned = sorted(times.keys() - {(None, None)}, key=lambda key: (-times[key], *map(last, key)))
    nobody = [(None, (None, None))] if (None, None) in times else []
    return [
        row(
            rank=rank,
            layer=key[0],
            layer_type=key[1],
            gpu_ns=gpu.get(key, 0),
            host_ns=host.get(key),
            clock=clock,
            share_pct=100 * times[key] / whole,
            unattributed_pct=100 * times.get((None, None), 0) / whole,
            kernels=len(kernels[key]),
            evidence=" + ".join(sorted(ways[key])) or None,
            measured_over=window.measured_over,
        )
        for rank, key in [*enumerate(owned, 1), *nobody]
    ]


def key_of(layer: str | None, by: str) -> tuple[str | None, str | None]:
    return layer if by == "layer" else None, layer_type(layer)
