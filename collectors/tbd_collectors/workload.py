"""Build the command line of a workload and make it importable for its interpreter."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from tbd_collectors.collection_request import Workload
from tbd_trace.runtime.private_files import temporary_directory

# Both import nothing beyond the standard library and the framework when they run there.
_PACKAGES = ("tbd_models", "tbd_trace")


def command(
    workload: Workload,
    *,
    report: Path | None = None,
    layers: Path | None = None,
    nvtx: bool = False,
    iterations: int | None = None,
    warmup: int | None = None,
    memory: Path | None = None,
    estimate: bool = False,
    torch_trace: Path | None = None,
    torch_memory: bool = False,
) -> list[str]:
    """Return the command line that trains a workload.

    ``report`` and ``layers`` are JSON files to write, ``nvtx`` emits NVTX ranges, ``iterations``
    and ``warmup`` override the workload's, ``memory`` records allocations in a file instead of
    times, or with ``estimate`` computes them from shapes. ``torch_trace`` is a file that
    torch.profiler writes, with ``torch_memory`` also with allocations.
    """
    arguments = [workload.python, "-m", "tbd_models", "run", workload.model]
    options: dict[str, object] = {
        "framework": workload.framework,
        "variant": workload.variant,
        "scale": workload.scale,
        "device": workload.device,
        "batch-size": workload.batch_size,
        "precision": workload.precision,
        "execution": workload.execution,
        "gradient-accumulation": (
            workload.gradient_accumulation if workload.gradient_accumulation > 1 else None
        ),
        "iterations": workload.iterations if iterations is None else iterations,
        "warmup": workload.warmup if warmup is None else warmup,
        "seed": workload.seed,
        "data": workload.data,
        "input": workload.input if workload.input != "synthetic" else None,
        "loader-workers": workload.loader_workers or None,
        "lengths": workload.lengths if workload.lengths != "fixed" else None,
        "layer-list": workload.layer_list,
        "scheme": workload.scheme,
        "report": report,
        "layers": layers,
        "memory": memory,
        "torch-trace": torch_trace,
    }
    for name, value in options.items():
        if value is not None:
            arguments += [f"--{name}", str(value)]
    switches = {
        "--activation-checkpointing": workload.activation_checkpointing,
        "--nvtx": nvtx,
        "--estimate": estimate,
        "--torch-memory": torch_memory,
    }
    return [*arguments, *(name for name, is_on in switches.items() if is_on)]


@contextmanager
def importable(*, auto: bool = False) -> Iterator[dict[str, str]]:
    """Yield environment variables that make the workloads importable in any interpreter.

    With ``auto``, interpreters mark the training of any program.
    """
    # Links in a separate directory: site-packages on PYTHONPATH would also shadow the other
    # interpreter's numpy with ours.
    with temporary_directory() as directory:
        for package in _PACKAGES:
            spec = find_spec(package)
            if spec is not None and spec.submodule_search_locations:
                source = Path(next(iter(spec.submodule_search_locations))).resolve()
                (Path(directory) / package).symlink_to(source, target_is_directory=True)
        if auto:
            (Path(directory) / "sitecustomize.py").symlink_to(
                Path(directory) / "tbd_models" / "auto" / "site" / "sitecustomize.py"
            )
        inherited = os.environ.get("PYTHONPATH")
        path = os.pathsep.join([directory, inherited] if inherited else [directory])
        yield {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
