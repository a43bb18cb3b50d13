"""Train a workload of the suite at growing batch sizes until memory ends; write the peaks.

The peaks are those of PyTorch's allocator, the truth for estimates from shapes.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from tbd_models.definition import Model
from tbd_models.instrument.marks import NoMarks
from tbd_models.pytorch.trainer import PyTorchTrainer, is_out_of_memory
from tbd_models.registry import find, implementation
from tbd_models.settings import Settings

_STEPS = 3


def main() -> None:
    """Write a list of batch sizes with their peaks; the last may be out of memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--scale", default="full")
    parser.add_argument("--batch-sizes", default="32,64,128,256,512,1024,2048,4096")
    parser.add_argument("--memory-gib", type=float, help="limit of the process on a CPU")
    parser.add_argument("--facts", type=Path, default=Path("sweep.json"))
    options = parser.parse_args()
    import_module("tbd_models.pytorch").prepare(Settings(batch_size=1, device=options.device))
    if options.memory_gib:
        most = int(options.memory_gib * 2**30)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    rows: list[dict[str, Any]] = []
    for size in map(int, options.batch_sizes.split(",")):
        rows.append(_peak(find(options.model), size, options))
        options.facts.write_text(json.dumps(rows), encoding="utf-8")
        print(rows[-1], flush=True)
        if rows[-1]["status"] != "ok":
            break


def _peak(model: Model, size: int, options: argparse.Namespace) -> dict[str, Any]:
    on_gpu = options.device == "cuda"
    gc.collect()
    if on_gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    row: dict[str, Any] = {"batch_size": size, "status": "ok"}
    try:
        dimensions = model.variant(None, "pytorch").at(options.scale)
        build = implementation(model, "pytorch").workload
        settings = Settings(batch_size=size, device=options.device)
        trainer = PyTorchTrainer(build, dimensions, settings)
        # cuDNN tries algorithms with large scratch memory, which an estimate cannot know.
        torch.backends.cudnn.benchmark = False
        for _ in range(_STEPS):
            trainer.step(NoMarks())
        trainer.synchronize()
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        row["status"] = "out_of_memory"
    if on_gpu and row["status"] == "ok":
        row["allocated"] = torch.cuda.max_memory_allocated()
        row["reserved"] = torch.cuda.max_memory_reserved()
    return row


if __name__ == "__main__":
    main()
