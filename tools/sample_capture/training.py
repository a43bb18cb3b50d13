"""The training script of the sample: the events of an iteration and their durations.

Each duration in the trace is one of these constants, or a kernel's base duration times the factor
of its iteration (`duration_ns`).
"""

from __future__ import annotations

from nsys_schema import COPY_DTOH, COPY_HTOD, DRIVER_CALL
from sample_capture.cnn import INPUT_BYTES
from sample_capture.model import Kernel, Layer, Network
from sample_capture.recorder import (
    COMPUTE_STREAM,
    COPY_STREAM,
    PID,
    Recorder,
    Thread,
)

START_NS = 1_000_000
SETUP_ALLOCATION_NS = 100_000
BETWEEN_NS = 37_000

DATA_WAIT_NS = 300_000
BATCH_COPY_NS = 48_000
FIRST_BATCH_COPY_NS = 96_000

FORWARD_HOST_NS = 24_000
BACKWARD_HOST_NS = 14_000
HANDOVER_NS = 10_000
MODULE_LOAD_NS = 3_000_000

FILL_NS = 14_000
WORKSPACE_ALLOCATION_NS = 400_000
FREE_TAIL_NS = 5_000

LOSS_BYTES, LOSS_COPY_NS = 4, 2_000
SYNC_TAIL_NS = 3_000
LOGGING_NS = 150_000

# In quarters: kernels of the first two iterations take 6/4 and 5/4 of their base duration, the
# data loader 16/4 and 8/4. Later kernels vary by -0.5 % to +0.5 %, which sums to zero over five
# iterations and over the first four of them.
WARM_UP = 2
WARM_UP_KERNEL_QUARTERS = (6, 5)
WARM_UP_DATA_QUARTERS = (16, 8)
JITTER = (1, -1, 2, -2, 0)
JITTER_UNIT = 400


def duration_ns(base_ns: int, iteration: int) -> int:
    """Return the duration of a kernel in an iteration, ns."""
    if iteration < WARM_UP:
        return base_ns * WARM_UP_KERNEL_QUARTERS[iteration] // 4
    jitter = JITTER[(iteration - WARM_UP) % len(JITTER)]
    return base_ns * (JITTER_UNIT + jitter) // JITTER_UNIT


class Training:
    """Train a network for some iterations and record it."""

    def __init__(self, recorder: Recorder, network: Network) -> None:
        self._recorder = recorder
        self._network = network
        self._main = recorder.thread(PID, "python")
        self._autograd = recorder.thread(PID + 8, "pt_autograd_0")

    def run(self, iterations: int) -> int:
        """Train and return the time of the end in ns."""
        main = self._main
        main.now = START_NS
        self._recorder.declare_domain(main)
        buffers = {
            "weights": self._network.weight_bytes,
            "gradients": self._network.weight_bytes,
            "feature maps": self._network.feature_map_bytes,
            "batches": 2 * INPUT_BYTES,
        }
        for label, size in buffers.items():
            self._recorder.allocate(main, label, size, SETUP_ALLOCATION_NS)
        for iteration in range(iterations):
            with self._recorder.range(main, f"iteration {iteration}", registered=False):
                self._iterate(iteration)
            self._recorder.flush_ranges()
            main.now += BETWEEN_NS
        return main.now

    def _iterate(self, iteration: int) -> None:
        recorder, main = self._recorder, self._main
        with recorder.range(main, "phase:data"):
            self._load(iteration)
        with recorder.range(main, "phase:forward"):
            for layer in self._network.layers[:-1]:
                self._forward(layer, iteration)
        with recorder.range(main, "phase:loss"):
            self._forward(self._network.layers[-1], iteration)
        with recorder.range(main, "phase:backward"):
            self._autograd.now = main.now + HANDOVER_NS
            for layer in reversed(self._network.layers):
                self._backward(layer, iteration)
            main.now = self._autograd.now + HANDOVER_NS
        with recorder.range(main, "phase:optimizer"):
            self._launch(main, self._network.optimizer, iteration, FORWARD_HOST_NS)
        recorder.copy(main, COPY_DTOH, LOSS_BYTES, LOSS_COPY_NS, COMPUTE_STREAM)
        recorder.synchronize(main, SYNC_TAIL_NS)
        main.now += LOGGING_NS

    def _load(self, iteration: int) -> None:
        # The copy of the next batch overlaps with the forward pass.
        quarters = WARM_UP_DATA_QUARTERS[iteration] if iteration < WARM_UP else 4
        self._main.now += DATA_WAIT_NS * quarters // 4
        if iteration == 0:
            self._recorder.copy_blocking(self._main, INPUT_BYTES, FIRST_BATCH_COPY_NS, SYNC_TAIL_NS)
        self._recorder.copy(self._main, COPY_HTOD, INPUT_BYTES, BATCH_COPY_NS, COPY_STREAM)

    def _forward(self, layer: Layer, iteration: int) -> None:
        main = self._main
        with self._recorder.range(main, f"layer:{layer.name}"):
            if iteration == 0 and layer is self._network.layers[0]:
                self._recorder.call(main, "cuModuleLoadData", MODULE_LOAD_NS, DRIVER_CALL)
            if iteration == 0 and layer.search is not None:
                self._launch(main, layer.search, iteration, FORWARD_HOST_NS)
            for kernel in layer.forward:
                self._launch(main, kernel, iteration, FORWARD_HOST_NS)

    def _backward(self, layer: Layer, iteration: int) -> None:
        recorder, thread = self._recorder, self._autograd
        with recorder.range(thread, f"layer_backward:{layer.name}"):
            if layer.fill_bytes:
                thread.now += BACKWARD_HOST_NS
                recorder.fill(thread, layer.fill_bytes, FILL_NS)
            if layer.workspace_bytes:
                thread.now += BACKWARD_HOST_NS
                recorder.allocate(
                    thread, "workspace", layer.workspace_bytes, WORKSPACE_ALLOCATION_NS
                )
            for kernel in layer.backward:
                self._launch(thread, kernel, iteration, BACKWARD_HOST_NS)
            if layer.workspace_bytes:
                thread.now += BACKWARD_HOST_NS
                recorder.free(thread, "workspace", FREE_TAIL_NS)

    def _launch(self, thread: Thread, kernel: Kernel, iteration: int, host_ns: int) -> None:
        thread.now += host_ns
        self._recorder.launch(thread, kernel, duration_ns(kernel.base_ns, iteration))
