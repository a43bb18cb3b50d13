"""Train a workload in TensorFlow."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tbd_models import cuda
from tbd_models.definition import UnsupportedError
from tbd_models.instrument.layer import without_sample_sizes
from tbd_models.instrument.layers_tensorflow import measure, merge_turns
from tbd_models.instrument.marks import Marks, NoMarks, marked
from tbd_models.instrument.memory_tensorflow import Update, estimate
from tbd_models.instrument.tensorflow import GraphMarks, LayerMarks, values, wait_for
from tbd_models.instrument.training_tensorflow import keep_order
from tbd_models.settings import Settings
from tbd_models.tensorflow import mirrored
from tbd_models.tensorflow.batches import signature, tensor_batches, tensors
from tbd_models.tensorflow.workload import Tensors, Turn, Workload


class TensorFlowTrainer:
    """Train a workload as a graph, eagerly or compiled by XLA.

    XLA compiles one program for the gradients and one for the update, without ranges inside.
    Raises UnsupportedError for a missing device or unsuitable settings.
    """

    def __init__(self, build: Any, dimensions: Any, settings: Settings) -> None:
        """Build the model by calling ``build``, a model's ``workload`` function."""
        self._settings = settings
        self._execution = "graph" if settings.execution == "auto" else settings.execution
        self._set_up()
        self.workload: Workload = self._scaled(build(dimensions))
        # Each rank has its own samples, and the same weights.
        own = replace(settings, seed=settings.seed + mirrored.rank(settings))
        self._batches = tensor_batches(self.workload, own)
        self._rng = np.random.default_rng(own.seed)
        self._initialize()
        self._steps: dict[int, Callable[[Tensors], Any]] = {}
        self._marks: Marks = NoMarks()
        self._in_graph = GraphMarks(self._marks)
        self._number = 0
        self._loss: Any = float("nan")

    def _set_up(self) -> None:
        # TensorFlow accepts device, precision and threads only before its first operation.
        settings = self._settings
        if settings.device == "cpu":
            if settings.precision == "tf32":
                raise UnsupportedError("tf32 is a precision of GPUs; use --precision fp32 on a CPU")
            tf.config.set_visible_devices([], "GPU")
        else:
            _use_gpu(settings)
        if settings.marked:
            keep_order()
        self._workers = mirrored.Workers() if mirrored.world_size(settings) > 1 else None
        tf.config.experimental.enable_tensor_float_32_execution(settings.precision == "tf32")
        halved = "mixed_float16" if settings.device == "cuda" else "mixed_bfloat16"
        keras.mixed_precision.set_global_policy(
            halved if settings.precision == "mixed" else "float32"
        )
        keras.utils.set_random_seed(settings.seed)

    def _scaled(self, workload: Workload) -> Workload:
        # Only float16 gradients need loss scaling; mixed precision on a CPU uses bfloat16.
        if self._settings.precision != "mixed" or self._settings.device == "cpu":
            return workload
        scaled = (
            replace(turn, optimizer=keras.optimizers.LossScaleOptimizer(turn.optimizer))
            for turn in workload.turns
        )
        return replace(workload, turns=tuple(scaled))

    def _initialize(self) -> None:
        # Creates all weights and optimizer states, which a graph must not create.
        batch = self._batches(0)
        for turn in self.workload.turns:
            turn.forward(batch)
            turn.optimizer.build(turn.weights())
        if self._workers is not None:
            self._workers.share(self.workload.model.trainable_weights)

    def describe(self) -> dict[str, Any]:
        """Return versions, device and size for the capture."""
        on_gpu = self._settings.device == "cuda"
        build = tf.sysconfig.get_build_info()
        gpus = tf.config.get_visible_devices("GPU")
        policy = keras.mixed_precision.global_policy()
        return {
            "framework": "tensorflow",
            "framework_version": tf.__version__,
            "keras_version": keras.__version__,
            "python_version": platform.python_version(),
            "cuda_version": build.get("cuda_version") if on_gpu else None,
            "cudnn_version": build.get("cudnn_version") if on_gpu else None,
            "gpu": tf.config.experimental.get_device_details(gpus[0]).get("device_name")
            if gpus
            else None,
            "cpu_threads": tf.config.threading.get_intra_op_parallelism_threads()
            or int(os.environ.get("TF_NUM_INTRAOP_THREADS", "0"))
            or None,
            "inter_op_threads": tf.config.threading.get_inter_op_parallelism_threads() or None,
            "execution": self._execution,
            "autocast": policy.compute_dtype if self._settings.precision == "mixed" else None,
            "parameters": sum(int(np.prod(w.shape)) for w in self.workload.model.trainable_weights),
        }

    def layers(self) -> list[dict[str, Any]]:
        """Return the entries of layers.json for an iteration, from the graphs of its turns."""
        batch, silent = self._batches(0), GraphMarks(NoMarks())
        entries = merge_turns(
            (turn.times, measure(self.workload.model, step, self._settings.batch_size))
            for turn in self.workload.turns
            for step in [partial(self._gradients, turn, batch, silent)]
        )
        if (plan := self._settings.lengths) is None or plan.is_uniform:
            return entries
        return [without_sample_sizes(entry) for entry in entries]

    def record_memory(self, path: Path, iterations: int) -> None:
        """Write memory.jsonl, estimated from the graphs of an iteration's turns."""

        def loss_of(turn: Turn) -> Callable[[Tensors], Any]:
            return lambda batch: turn.loss(turn.forward(batch), batch)

        updates = [
            Update(loss_of(t), t.weights(), t.optimizer, t.times) for t in self.workload.turns
        ]
        settings, batch = self._settings, self._batches(0)
        recording = estimate(
            self.workload.model, updates, batch, settings.batch_size, settings.device
        )
        recording.write(path, iterations)

    def mark_layers(self, marks: Marks) -> None:
        """Mark phases and layers from now on; step() marks the data phase in any case."""
        self._marks = marks
        if self._execution != "xla":
            self._in_graph = GraphMarks(marks)
            LayerMarks(self.workload.model, self._in_graph)

    def step(self, marks: Marks) -> None:
        """Run one training iteration with its phases marked."""
        loss = None
        for number, turn in enumerate(self.workload.turns):
            for _ in range(turn.times):
                with marked(marks, "phase:data"):
                    batch = self._batch()
                loss = self._step(number, turn)(batch)
                self._number += 1
        self._loss = loss

    def _batch(self) -> Tensors:
        workload, settings = self.workload, self._settings
        if workload.generate is None or settings.data is not None:
            return self._batches(self._number)
        return tensors(workload, workload.generate(settings.batch_size, self._rng))

    def _step(self, number: int, turn: Turn) -> Callable[[Tensors], Any]:
        # Graphs are traced on their first call.
        if number not in self._steps:
            if self._execution == "xla":
                self._steps[number] = self._compiled(number, turn)
            else:

                def run(batch: Tensors) -> Any:
                    loss, gradients = self._gradients(turn, batch, self._in_graph)
                    gradients = self._averaged(gradients, number, self._in_graph)
                    self._update(turn, gradients, self._in_graph)
                    return loss

                self._steps[number] = self._traced(run) if self._execution == "graph" else run
        return self._steps[number]

    def _traced(self, run: Callable[[Tensors], Any]) -> Callable[[Tensors], Any]:
        plan = self._settings.lengths
        if plan is None or plan.is_uniform:
            return tf.function(run)
        shapes = [self._batches(step) for step in plan.first_steps_of_shapes()]
        if not self.workload.unrolled:
            return tf.function(run, input_signature=[signature(shapes)])
        # A graph for each shape, which takes seconds to trace: before any iteration is timed.
        function = tf.function(run)
        for batch in shapes:
            function.get_concrete_function(batch)
        return function

    def _compiled(self, number: int, turn: Turn) -> Callable[[Tensors], Any]:
        # Two programs, so that the boundary between them can be marked.
        silent = GraphMarks(NoMarks())
        compute = tf.function(lambda batch: self._gradients(turn, batch, silent), jit_compile=True)
        apply = tf.function(
            lambda gradients: self._update(turn, gradients, silent), jit_compile=True
        )

        def run(batch: Tensors) -> Any:
            loss, gradients = compute(batch)
            gradients = self._averaged(gradients, number, GraphMarks(self._marks))
            with marked(self._marks, "phase:optimizer"):
                apply(gradients)
            return loss

        return run

    def _gradients(self, turn: Turn, batch: Tensors, marks: GraphMarks) -> tuple[Any, list[Any]]:
        # Each phase waits for its begin mark, and its end mark waits for the phase's results.
        weights = [weight.value for weight in turn.weights()]
        begun = marks.push("phase:forward")
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(weights)
            output = turn.forward(wait_for(batch, begun))
            output = wait_for(output, marks.pop(tf.nest.flatten(output)))
            output = wait_for(output, marks.push("phase:loss"))
            loss = turn.loss(output, batch)
            loss = wait_for(loss, marks.pop([loss]))
            loss = wait_for(loss, marks.push("phase:backward"))
            scaled = turn.optimizer.scale_loss(loss)
        gradients = tape.gradient(scaled, weights)
        done = marks.pop(values(gradients))
        return loss, wait_for(gradients, done)

    def _averaged(self, gradients: list[Any], number: int, marks: GraphMarks) -> list[Any]:
        if self._workers is None:
            return gradients
        return self._workers.average(gradients, number, marks)

    def _update(self, turn: Turn, gradients: list[Any], marks: GraphMarks) -> None:
        gradients = wait_for(gradients, marks.push("phase:optimizer"))
        turn.optimizer.apply(gradients, turn.weights())
        marks.pop([tf.identity(weight.value) for weight in turn.weights()])

    def agree(self, flag: bool) -> bool:
        """Return a flag that is the same on all ranks, so that they end their warm-up together."""
        return flag if self._workers is None else self._workers.same_on_all(flag)

    def close(self) -> None:
        """Wait for the other ranks, which take the end of one for a failure."""
        if self._workers is not None:
            self._workers.wait_for_all()

    def synchronize(self) -> None:
        if self._settings.device == "cuda":
            tf.test.experimental.sync_devices()

    def reserved_bytes(self) -> int | None:
        # TensorFlow's allocator reports only its use, not its reservation.
        return None

    def peak_bytes(self) -> int | None:
        """Return the peak bytes of tensors on the GPU, None on a CPU."""
        if self._settings.device == "cpu":
            return None
        return int(tf.config.experimental.get_memory_info("GPU:0")["peak"])

    def loss(self) -> float:
        """Return the loss of the last iteration."""
        return float(self._loss)

    def start_profiler(self) -> None:
        if self._workers is not None:
            self._workers.wait_for_all()  # so that they begin their window together
        if self._settings.device == "cuda":
            cuda.start_profiler()

    def stop_profiler(self) -> None:
        if self._settings.device == "cuda":
            cuda.stop_profiler()


def is_out_of_memory(error: BaseException) -> bool:
    """Return True if an error means that GPU or host memory is exhausted."""
    return isinstance(error, (tf.errors.ResourceExhaustedError, MemoryError))


def _use_gpu(settings: Settings) -> None:
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        raise UnsupportedError("TensorFlow sees no GPU here; use --device cpu")
    if mirrored.world_size(settings) > 1:
        rank = mirrored.rank(settings)
        if rank >= len(gpus):
            raise UnsupportedError(
                f"rank {rank} needs its own GPU, and there are {len(gpus)}; "
                "use fewer --ranks or --device cpu"
            )
        tf.config.set_visible_devices(gpus[rank], "GPU")


TRAINER = TensorFlowTrainer
