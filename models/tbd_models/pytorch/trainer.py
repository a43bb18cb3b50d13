"""Train a workload in PyTorch."""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from tbd_models.data import ArrayData, in_turn
from tbd_models.definition import UnsupportedError
from tbd_models.instrument.buckets_pytorch import mark_buckets
from tbd_models.instrument.layers_pytorch import measure
from tbd_models.instrument.marks import Marks, NoMarks, marked
from tbd_models.instrument.profiler_pytorch import TraceRecorder
from tbd_models.instrument.pytorch import LayerMarks
from tbd_models.pytorch import distributed
from tbd_models.pytorch.loader import decoded_batches
from tbd_models.pytorch.parameter_server import ParameterServer
from tbd_models.pytorch.sharded import mark_shards, shard, synchronize_gradients
from tbd_models.pytorch.workload import Batch, Workload, as_tensors, to_device
from tbd_models.settings import Settings

# Messages of the CPU's allocator, the CUDA runtime, and of cuBLAS and cuDNN.
_OUT_OF_MEMORY = ("can't allocate memory", "CUDA error: out of memory", "STATUS_ALLOC_FAILED")

# From a workload and its settings to a function that returns the batch of a step.
Batches = Callable[[Workload, Settings], Callable[[int], Batch]]


class PyTorchTrainer:
    """Train a workload; raises UnsupportedError for a missing device or unsuitable data."""

    def __init__(
        self,
        build: Any,
        dimensions: Any,
        settings: Settings,
        batches: Batches | None = None,
    ) -> None:
        """Build the model by calling ``build``, a model's ``workload`` function.

        ``batches`` replaces the batches of the settings.
        """
        if settings.device == "cuda" and not torch.cuda.is_available():
            raise UnsupportedError("PyTorch sees no GPU here; use --device cpu")
        self._ranks = distributed.world_size()
        if self._ranks > 1:
            # Each rank has its own samples; DistributedDataParallel shares rank 0's weights.
            self.device = distributed.join(settings.device)
            settings = dataclasses.replace(settings, seed=settings.seed + distributed.dist_rank())
        else:
            self.device = torch.device(settings.device)
        on_gpu = self.device.type == "cuda"
        if settings.precision == "tf32" and not on_gpu:
            raise UnsupportedError("tf32 is a precision of GPUs; use --precision fp32 on a CPU")
        torch.manual_seed(settings.seed)
        torch.backends.cuda.matmul.allow_tf32 = settings.precision == "tf32"
        torch.backends.cudnn.allow_tf32 = settings.precision == "tf32"
        same_shapes = settings.lengths is None or settings.lengths.is_uniform
        torch.backends.cudnn.benchmark = same_shapes  # choose the fastest once
        with self.device:
            self.workload: Workload = build(dimensions)
        self.workload.model.train()
        if settings.activation_checkpointing:
            self._checkpoint()
        self.optimizer = self._new_optimizer()
        self._mixed = settings.precision == "mixed"
        self._autocast_type = _autocast_type(self.workload, on_gpu)
        scaled = self._mixed and self._autocast_type is torch.float16
        self._scaler = torch.amp.GradScaler(enabled=scaled)
        self._passes = settings.gradient_accumulation
        self._size = settings.micro_batch_size
        self._same_shapes = same_shapes
        micro = dataclasses.replace(settings, batch_size=self._size)
        self._batches = (batches or repeated_batches)(self.workload, micro)
        self._replicas: DistributedDataParallel | None = None
        self._server: ParameterServer | None = None
        # Sharded parameters are not those of the layers, which are measured before.
        self._is_sharded = self._ranks > 1 and settings.scheme == "fsdp"
        self._shards_later = self._is_sharded
        if self._ranks > 1 and settings.scheme == "ddp":
            self._replicas = distributed.replicated(self.model, self.device)
        elif self._ranks > 1 and not self._is_sharded:
            self._server = self._served(settings)
        self._steps = 0
        self._losses: list[Tensor] = []  # of the passes of the last iteration
        self.recorder: TraceRecorder | None = None  # replaces the CUDA profiler

    @property
    def model(self) -> nn.Module:
        """Return the model."""
        return self.workload.model

    def describe(self) -> dict[str, Any]:
        """Return versions, device and size for the capture."""
        on_gpu = self.device.type == "cuda"
        return {
            "framework": "pytorch",
            "framework_version": torch.__version__,
            "python_version": platform.python_version(),
            "cuda_version": torch.version.cuda,
            "cudnn_version": torch.backends.cudnn.version() if on_gpu else None,
            "gpu": torch.cuda.get_device_name() if on_gpu else None,
            "cpu_threads": torch.get_num_threads(),
            "autocast": str(self._autocast_type).removeprefix("torch.") if self._mixed else None,
            "parameters": sum(p.numel() for p in self.model.parameters() if p.requires_grad),
        }

    def layers(self) -> list[dict[str, Any]]:
        """Return the entries of layers.json, from one forward and backward pass."""
        batch = to_device(self._batches(0), self.device)
        # Without communication, which a pass of the model without its replicas does not cause.
        if self._server is not None:
            self._server.is_paused = True
        measured = measure(self.model, lambda: self._forward_backward(self.model, batch, NoMarks()))
        self.optimizer.zero_grad(set_to_none=True)
        if self._server is not None:
            self._server.is_paused = False
        return [layer.entry(self._size if self._same_shapes else None) for layer in measured]

    def mark_layers(self, marks: Marks) -> None:
        """Mark each layer from now on."""
        self._shard()
        LayerMarks(self.model, marks)
        if self._is_sharded:
            mark_shards(self.model, marks)
        if self._replicas is not None:
            mark_buckets(self._replicas, marks)
        if self._server is not None:
            self._server.marks = marks

    def step(self, marks: Marks) -> None:
        """Run one training iteration with its phases marked."""
        self._shard()
        losses = []
        model: Any = self.model if self._replicas is None else self._replicas
        last = (self._steps + 1) * self._passes - 1
        for number in range(self._steps * self._passes, last + 1):
            with marked(marks, "phase:data"):
                batch = to_device(self._batches(number), self.device)
            # Accumulated gradients are averaged over the ranks once.
            is_local = self._replicas is not None and number < last
            if self._is_sharded and self._passes > 1:
                synchronize_gradients(self.model, wanted=number == last)
            with model.no_sync() if is_local else nullcontext():
                losses.append(self._forward_backward(model, batch, marks))
        self._losses = losses
        with marked(marks, "phase:optimizer"):
            if self._server is None:
                self._update()
        self._steps += 1

    def _new_optimizer(self) -> torch.optim.Optimizer:
        trained = [p for p in self.model.parameters() if p.requires_grad]
        return self.workload.optimizer(trained)

    def _shard(self) -> None:
        if self._shards_later:
            self._shards_later = False
            shard(self.model, self.device)
            self.optimizer = self._new_optimizer()

    def _update(self) -> None:
        if self.workload.clip_norm is not None:
            # Clipping compares true gradients, so remove the loss scale first.
            self._scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(self.model.parameters(), self.workload.clip_norm)
        self._scaler.step(self.optimizer)
        self._scaler.update()
        self.optimizer.zero_grad(set_to_none=True)

    def _forward_backward(self, model: nn.Module, batch: Batch, marks: Marks) -> Tensor:
        with torch.autocast(self.device.type, self._autocast_type, enabled=self._mixed):
            with marked(marks, "phase:forward"):
                output = self.workload.forward(model, batch)
            with marked(marks, "phase:loss"):
                loss = self.workload.loss(output, batch)
                if self._passes > 1:
                    loss = loss / self._passes  # so that gradients add up to those of the mean
        with marked(marks, "phase:backward"):
            self._scaler.scale(loss).backward()
        return loss.detach()

    def _checkpoint(self) -> None:
        if self.workload.checkpoint is None:
            raise UnsupportedError(
                f"{type(self.model).__name__} has no activation checkpointing; leave out "
                "--activation-checkpointing"
            )
        self.workload.checkpoint(self.model)

    def _served(self, settings: Settings) -> ParameterServer:
        # The server updates each layer by itself, before the layer's next forward pass.
        if self.workload.clip_norm is not None or self._passes > 1:
            raise UnsupportedError(
                f"--scheme {settings.scheme} neither clips gradients nor accumulates them; use ddp"
            )
        by_priority = settings.scheme == "p3"
        return ParameterServer(self.model, self.workload.optimizer, by_priority=by_priority)

    def synchronize(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def agree(self, flag: bool) -> bool:
        """Return rank 0's flag, so that all ranks end their warm-up together."""
        return distributed.same_on_all(flag, self.device) if self._ranks > 1 else flag

    def close(self) -> None:
        """Leave the process group."""
        if self._server is not None:
            self._server.close()
        distributed.leave()

    def reserved_bytes(self) -> int | None:
        """Return the bytes that the caching allocator holds on the GPU, None on a CPU."""
        return torch.cuda.memory_reserved() if self.device.type == "cuda" else None

    def peak_bytes(self) -> int | None:
        """Return the peak bytes of tensors on the GPU, None on a CPU."""
        return torch.cuda.max_memory_allocated() if self.device.type == "cuda" else None

    def loss(self) -> float:
        """Return the loss of the last iteration, NaN before the first."""
        return float(sum(self._losses)) if self._losses else float("nan")

    def start_profiler(self) -> None:
        self.agree(True)  # all ranks begin their window together
        if self.recorder is not None:
            self.recorder.start()
        elif self.device.type == "cuda":
            torch.cuda.profiler.start()

    def stop_profiler(self) -> None:
        if self.recorder is not None:
            self.recorder.stop()
        elif self.device.type == "cuda":
            torch.cuda.profiler.stop()


def _autocast_type(workload: Workload, on_gpu: bool) -> torch.dtype:
    # bfloat16 needs no loss scaling; CPUs support it better than float16, GPUs from Ampere on.
    has_bf16 = not on_gpu or (
        workload.prefers_bf16 and torch.cuda.get_device_capability() >= (8, 0)
    )
    return torch.bfloat16 if has_bf16 else torch.float16


def is_out_of_memory(error: BaseException) -> bool:
    """Return True if an error means that GPU or host memory is exhausted."""
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or (
        isinstance(error, RuntimeError) and any(words in str(error) for words in _OUT_OF_MEMORY)
    )


def repeated_batches(workload: Workload, settings: Settings) -> Callable[[int], Batch]:
    """Return a function from a step number to its batch on the CPU, in pinned memory for a GPU."""
    # step() copies batches to the device in phase "data".
    rng = np.random.default_rng(settings.seed)
    if settings.data is not None:
        like = workload.batch(1, rng)
        if not all(isinstance(value, Tensor) for value in like.values()):
            raise UnsupportedError("its samples differ in shape, so it takes only synthetic data")
        plain = {name: np.asarray(value) for name, value in like.items()}
        data = ArrayData(settings.data, plain)
        return lambda number: as_tensors(data.batch(number, settings.batch_size))
    if settings.input == "decode":
        return decoded_batches(workload.decoded, settings)
    # Pinned memory makes the copies asynchronous.
    kept = _pinned if settings.device == "cuda" else dict
    if (plan := settings.lengths) is not None:
        assert workload.sized is not None  # a model with a corpus has it
        made = [kept(workload.sized(planned, rng)) for planned in plan.made]
        return lambda number: made[number % len(made)]
    return in_turn(lambda: kept(workload.batch(settings.batch_size, rng)))


def _pinned(batch: Batch) -> Batch:
    return {n: v.pin_memory() if isinstance(v, Tensor) else v for n, v in batch.items()}


TRAINER = PyTorchTrainer
