"""The training of the sample: each allocation and release, with what is true of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from sample_memory import frames
from sample_memory.allocator import Allocator, Segment
from sample_memory.frames import Stack
from sample_memory.network import INPUT, LAYERS, LEAK_BYTES, LOSS, Layer, Value

ITERATIONS = 5
_MAPS = "feature_map"


@dataclass
class Allocation:
    """One allocation, and its true class."""

    bytes: int
    kind: str  # class
    address: int
    layer: str | None = None
    layer_type: str | None = None
    phase: str = "setup"
    iteration: int | None = None
    operator: str | None = None
    shape: tuple[int, ...] | None = None
    dtype: str = "float32"
    stack: Stack = ()
    said: str = ""  # class known when it is allocated; `kind` is stated later if it differs


class Event(NamedTuple):
    """One event of the allocator."""

    action: str  # alloc, free, classify, segment_alloc
    allocation: Allocation | None
    stack: Stack
    iteration: int | None
    segment: Segment | None = None


@dataclass
class Training:
    """Iterations of SGD with momentum; ``events`` are in order.

    Iteration 0 creates gradients and momentum. All weights exist before it.
    """

    allocator: Allocator = field(default_factory=Allocator)
    events: list[Event] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)  # first event of each iteration

    def __post_init__(self) -> None:
        self._iteration: int | None = None
        self._phase = "setup"
        self._gradients: list[Allocation] = []
        self._weights: list[tuple[Layer, Value]] = []
        self._images: Allocation | None = None
        self._maps: dict[str, list[Allocation]] = {}

    def run(self) -> Training:
        """Make all events."""
        for layer in LAYERS:
            for value in layer.weights:
                self._make(value, "weight", layer)
                self._weights.append((layer, value))
            for value in layer.buffers:
                self._make(value, "buffer", layer)
        for number in range(ITERATIONS):
            self._iteration = number
            self.starts.append(len(self.events))
            self._forward()
            self._backward()
            self._step()
        return self

    def _make(
        self,
        value: Value,
        kind: str,
        layer: Layer | None = None,
        stack: Stack = (),
        *,
        operator: str | None = None,
        said: str = "",
    ) -> Allocation:
        address, segment = self.allocator.allocate(value.bytes)
        if segment is not None:
            self.events.append(Event("segment_alloc", None, stack, self._iteration, segment))
        made = Allocation(
            value.bytes,
            kind,
            address,
            layer.name if layer else None,
            layer.file if layer else None,
            self._phase,
            self._iteration,
            operator,
            None if kind == "workspace" else value.shape,
            "int64" if value.element_bytes != 4 else "float32",
            stack,
            said or kind,
        )
        self.events.append(Event("alloc", made, stack, self._iteration))
        if made.said != kind:
            self.events.append(Event("classify", made, stack, self._iteration))
        return made

    def _free(self, made: Allocation, stack: Stack) -> None:
        self.allocator.free(made.address)
        self.events.append(Event("free", made, stack, self._iteration))

    def _workspace(self, layer: Layer, stack: Stack) -> None:
        if layer.workspace_bytes:
            scratch = Value("workspace", (layer.workspace_bytes // 4,))
            own = frames.workspace(stack)
            self._free(self._make(scratch, "workspace", layer, own, operator=layer.operator), stack)

    def _outputs(self, layer: Layer, kind: str, stack: Stack) -> list[Allocation]:
        made = [self._make(v, kind, layer, stack, operator=layer.operator) for v in layer.outputs]
        self._workspace(layer, stack)
        return made

    def _forward(self) -> None:
        self._phase = "other"
        images = self._make(INPUT, "input", None, frames.TRANSFER, operator="_to_copy")
        if self._images is not None:
            self._free(self._images, frames.RELEASE)
        self._images = images
        self._phase = "optimizer"
        for gradient in self._gradients:
            self._free(gradient, frames.ZERO_GRAD)
        self._gradients = []
        self._phase = "forward"
        dropped: list[Allocation] = []  # what checkpointing does not keep
        for layer in LAYERS:
            stack = frames.forward(layer)
            kind = "temporary" if layer.checkpointed else _MAPS
            made = self._outputs(layer, kind, stack)
            for old in dropped:
                self._free(old, stack)
            dropped = made if layer.checkpointed else []
            if not layer.checkpointed:
                self._maps[layer.name] = made

    def _backward(self) -> None:
        self._phase = "backward"
        seed = Value("ones_like", ())
        upstream = self._make(seed, "activation_gradient", LOSS, frames.SEED, operator="ones_like")
        for layer in reversed(LAYERS):
            stack = frames.backward(layer)
            if layer.checkpointed:
                self._phase = "recompute"
                again = frames.recompute(layer)
                self._maps[layer.name] = self._outputs(layer, _MAPS, again)
                self._phase = "backward"
            operator = f"{layer.operator}_backward"
            self._workspace(layer, stack)
            for value in layer.weights:
                self._gradients.append(
                    self._make(
                        value,
                        "weight_gradient",
                        layer,
                        stack,
                        operator=operator,
                        said="activation_gradient",
                    )
                )
            if layer.input_gradient:
                # The gradient of a layer's input has the size of the output before it.
                before = LAYERS[LAYERS.index(layer) - 1].outputs[0]
                gradient = self._make(
                    before, "activation_gradient", layer, stack, operator=operator
                )
                self._free(upstream, stack)
                upstream = gradient
            else:
                self._free(upstream, stack)
            for old in self._maps.pop(layer.name):
                self._free(old, stack)

    def _step(self) -> None:
        self._phase = "optimizer"
        if self._iteration == 0:
            for layer, value in self._weights:
                self._make(
                    value,
                    "optimizer_state",
                    layer,
                    frames.STEP,
                    operator="clone",
                    said="optimizer_temporary",
                )
        for _, value in self._weights[-2:]:
            scaled = self._make(
                value, "optimizer_temporary", None, frames.STEP, operator="_foreach_mul_Scalar"
            )
            self._free(scaled, frames.STEP)
        self._phase = "other"
        self._make(
            Value("leak", (LEAK_BYTES // 4,)), "unknown", None, frames.LEAK, operator="clone"
        )
