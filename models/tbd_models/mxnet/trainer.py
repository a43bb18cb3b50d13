"""Train a workload in MXNet."""

from __future__ import annotations

import dataclasses
import os
import platform
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon
from mxnet.contrib import amp

from tbd_models import cuda
from tbd_models.data import batches
from tbd_models.definition import UnsupportedError
from tbd_models.instrument.layers_mxnet import measure
from tbd_models.instrument.marks import Marks, marked
from tbd_models.instrument.memory_mxnet import Training, estimate
from tbd_models.instrument.mxnet import LayerMarks, parameter_layers
from tbd_models.mxnet import EAGER, HYBRIDISED, execution, shared_store
from tbd_models.mxnet.loader import decoded_batches
from tbd_models.mxnet.shared_store import SharedStore
from tbd_models.mxnet.workload import Array, Batch, Workload, to_device
from tbd_models.settings import Settings

_WARMUP = 10  # iterations of several ranks, unless the user sets their number
# Messages of the allocators of the GPU, cuDNN and the CPU.
_OUT_OF_MEMORY = ("out of memory", "ALLOC_FAILED", "Failed to allocate CPU Memory", "bad_alloc")


class MXNetTrainer:
    """Train a workload; raises UnsupportedError for a missing device or unsuitable settings."""

    def __init__(self, build: Any, dimensions: Any, settings: Settings) -> None:
        """Build the model by calling ``build``, a model's ``workload`` function."""
        self._ranks, rank = shared_store.world_size(settings), shared_store.rank(settings)
        self.device = _device(settings)
        self._mixed = settings.precision == "mixed"
        if self._mixed:
            amp.init()  # patches MXNet's operators, so it must precede the model
        mx.random.seed(settings.seed)
        np.random.seed(settings.seed)  # used by some of MXNet's initializers
        self.workload: Workload = build(dimensions)
        self._execution = execution(settings)
        if settings.lengths and self.workload.unrolled and self._execution == HYBRIDISED:
            self._execution = EAGER
        # Each rank has its own samples, and the same weights.
        own = dataclasses.replace(settings, seed=settings.seed + rank)
        self._batches = _batches(self.workload, own, self.device)
        self._example = self._equal_size_batch(settings)
        model = self.workload.model
        # With known shapes, weights are drawn at once and in the same order in each execution.
        model.infer_shape(*(self._example[name] for name in self.workload.inputs))
        model.initialize(self.workload.initializer, ctx=self.device)
        if self._execution == HYBRIDISED:
            same = settings.lengths is None
            model.hybridize(static_alloc=same, static_shape=same)
        self._trained = [p for p in model.collect_params().values() if p.grad_req != "null"]
        self._shared: SharedStore | None = None
        self._asked = 0
        self._trainer = gluon.Trainer(
            self._trained, self.workload.optimizer(), kvstore=self._store()
        )
        if self._mixed:
            amp.init_trainer(self._trainer)
        self._layer_marks: LayerMarks | None = None
        self._size = settings.batch_size
        self._lengths = settings.lengths
        self._steps = 0
        self._loss: Array | None = None

    def _equal_size_batch(self, settings: Settings) -> Batch:
        if settings.lengths is None:
            return self._batches(0)
        made = self.workload.batch(settings.batch_size, np.random.default_rng(settings.seed))
        return to_device(made, self.device)

    @property
    def model(self) -> gluon.HybridBlock:
        """Return the model."""
        return self.workload.model

    def describe(self) -> dict[str, Any]:
        """Return versions, device and size for the capture."""
        return {
            "framework": "mxnet",
            "framework_version": mx.__version__,
            "python_version": platform.python_version(),
            "cuda_version": None,  # MXNet does not expose it
            "cudnn_version": None,
            "gpu": None,
            "cpu_threads": int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1)),
            "autocast": "float16" if self._mixed else None,
            "execution": self._execution,
            "parameters": sum(int(np.prod(p.shape)) for p in self._trained),
        }

    def layers(self) -> list[dict[str, Any]]:
        """Return the entries of layers.json, from the shapes of a forward pass."""
        shapes = {name: self._example[name].shape for name in self.workload.inputs}
        measured = measure(self.model, shapes, "fp16" if self._mixed else "fp32")
        return [layer.entry(self._size if self._lengths is None else None) for layer in measured]

    def record_memory(self, path: Path, iterations: int) -> None:
        """Write memory.jsonl, estimated from the shapes and gradients of an iteration."""
        work = self.workload
        training = Training(self.model, work.inputs, work.loss, work.optimizer())
        kind = "cuda" if self.device.device_type == "gpu" else "cpu"
        estimate(training, self._batches(0), self._size, kind).write(path, iterations)

    def mark_layers(self, marks: Marks) -> None:
        """Mark each layer from now on."""
        self._layer_marks = LayerMarks(self.model, marks)
        if self._shared is not None:
            layers = parameter_layers(self.model)
            names = {key: layers[p.name] for key, p in enumerate(self._trained)}
            self._shared.mark(names, marks)

    def step(self, marks: Marks) -> None:
        """Run one training iteration with its phases marked."""
        before = self._loss
        with marked(marks, "phase:data"):
            batch = self._batches(self._steps)
        self._forward_backward(batch, marks)
        with marked(marks, "phase:optimizer"):
            if self.workload.clip_norm is not None:
                self._clip(self.workload.clip_norm)
            # The loss is already a mean over the batch of a rank.
            self._trainer.step(self._ranks)
        # Let the engine run at most one iteration ahead: otherwise iterations would last as long
        # as their queueing, and queued work would fill the memory. Of several ranks, the pulls of
        # an iteration are behind its loss already.
        awaited = before if self._shared is None else self._loss
        if awaited is not None:
            awaited.wait_to_read()
        self._steps += 1

    def _forward_backward(self, batch: Batch, marks: Marks) -> None:
        with autograd.record():
            with marked(marks, "phase:forward"):
                output = self.workload.forward(batch)
            with marked(marks, "phase:loss"):
                loss = self.workload.loss(output, batch)
        with marked(marks, "phase:backward"):
            if self._mixed:
                # amp.scale_loss must be recorded, so that backward() includes the scaling.
                with autograd.record(), amp.scale_loss(loss, self._trainer) as scaled:
                    pass
                scaled.backward()
            else:
                loss.backward()
            if self._layer_marks is not None:
                self._layer_marks.end_backward()
        self._loss = loss

    def _clip(self, norm: float) -> None:
        if self._mixed:
            amp.unscale(self._trainer)
        gradients = [parameter.grad(self.device) for parameter in self._trained]
        gluon.utils.clip_global_norm(gradients, norm, check_isfinite=False)

    def _store(self) -> Any:
        if self._ranks == 1:
            return None
        if self._mixed or self.workload.clip_norm is not None:
            raise UnsupportedError(
                "--scheme dist_sync neither clips gradients nor scales a loss; use another model "
                "or --precision fp32"
            )
        self._shared = SharedStore()
        return self._shared.store

    def agree(self, flag: bool) -> bool:
        """Return a flag that is the same on all ranks, so that they end their warm-up together."""
        if self._shared is None:
            return flag
        # Servers update all that is pushed to them, so ranks count instead of exchanging flags.
        self._asked += 1
        return self._asked >= _WARMUP

    def close(self) -> None:
        """Leave the job."""
        if self._shared is not None:
            self._shared.close()

    def synchronize(self) -> None:
        mx.nd.waitall()

    def reserved_bytes(self) -> int | None:
        """Return the used bytes of the GPU, None on a CPU."""
        if self.device.device_type == "cpu":
            return None
        free, total = mx.context.gpu_memory_info(self.device.device_id)
        return int(total - free)

    def peak_bytes(self) -> int | None:
        # MXNet does not expose a peak.
        return None

    def loss(self) -> float:
        """Return the loss of the last iteration, NaN before the first."""
        return float("nan") if self._loss is None else float(self._loss.asscalar())

    def start_profiler(self) -> None:
        if self._shared is not None:
            self._shared.wait_for_all()  # so that they begin their window together
        if self.device.device_type == "gpu":
            cuda.start_profiler()

    def stop_profiler(self) -> None:
        if self.device.device_type == "gpu":
            cuda.stop_profiler()


def is_out_of_memory(error: BaseException) -> bool:
    """Return True if an error means that GPU or host memory is exhausted."""
    return isinstance(error, MemoryError) or (
        isinstance(error, mx.MXNetError) and any(words in str(error) for words in _OUT_OF_MEMORY)
    )


def _device(settings: Settings) -> mx.Context:
    if settings.precision == "tf32":
        raise UnsupportedError("MXNet has no switch for TF32; use --precision fp32 or mixed")
    if settings.device == "cpu":
        if settings.precision == "mixed":
            raise UnsupportedError(
                "MXNet's mixed precision needs a GPU; use --precision fp32 on a CPU"
            )
        return mx.cpu()
    if not mx.context.num_gpus():
        raise UnsupportedError("MXNet sees no GPU here; use --device cpu")
    rank = shared_store.rank(settings)
    if rank >= mx.context.num_gpus():
        raise UnsupportedError(
            f"rank {rank} needs its own GPU, and there are {mx.context.num_gpus()}; "
            "use fewer --ranks or --device cpu"
        )
    return mx.gpu(rank)


def _batches(workload: Workload, settings: Settings, device: mx.Context) -> Callable[[int], Batch]:
    if settings.input == "decode":
        following = decoded_batches(workload.decoded, settings)
        return lambda number: to_device(following(number), device)
    # Converted on the CPU once; each step copies its batch to the device.
    on_cpu = batches(workload.batch, settings, partial(to_device, device=mx.cpu()), workload.sized)

    def moved(number: int) -> Batch:
        return {name: array.as_in_context(device) for name, array in on_cpu(number).items()}

    return moved


TRAINER = MXNetTrainer
