"""Layers of the sample's network, with the sizes of all their tensors."""

from __future__ import annotations

from dataclasses import dataclass

BATCH_SIZE = 8
FP32, INT64 = 4, 8
LIBRARY = "/usr/lib/python3/dist-packages/torch"


@dataclass(frozen=True)
class Value:
    """A tensor of a layer."""

    name: str
    shape: tuple[int, ...]
    element_bytes: int = FP32

    @property
    def bytes(self) -> int:
        """Size as requested."""
        elements = 1
        for length in self.shape:
            elements *= length
        return elements * self.element_bytes


@dataclass(frozen=True)
class Layer:
    """A layer: its tensors, and where PyTorch's frames place it."""

    name: str
    type: str
    operator: str  # of the forward pass
    file: str  # of its class in torch/nn/modules
    line: int
    outputs: tuple[Value, ...]
    weights: tuple[Value, ...] = ()
    buffers: tuple[Value, ...] = ()
    workspace_bytes: int = 0
    checkpointed: bool = False  # its output is made again in the backward pass

    @property
    def source(self) -> str:
        """The source file of its forward function."""
        return f"{LIBRARY}/nn/modules/{self.file}.py"

    @property
    def input_gradient(self) -> bool:
        """True if the backward pass computes a gradient of its input: not for images."""
        return self.name != "conv1"


def _convolution(name: str, inputs: int, outputs: int, checkpointed: bool = False) -> Layer:
    return Layer(
        name,
        "Conv2d",
        "convolution",
        "conv",
        460,
        (Value("output", (BATCH_SIZE, outputs, 32, 32)),),
        (Value("weight", (outputs, inputs, 3, 3)),),
        workspace_bytes=1_500_000,
        checkpointed=checkpointed,
    )


INPUT = Value("images", (BATCH_SIZE, 3, 32, 32))
LOSS = Layer(
    "loss",
    "CrossEntropyLoss",
    "nll_loss_forward",
    "loss",
    1179,
    (Value("log_softmax", (BATCH_SIZE, 10)), Value("total_weight", ())),
)
LAYERS = (
    _convolution("conv1", 3, 16),
    Layer(
        "bn1",
        "BatchNorm2d",
        "native_batch_norm",
        "batchnorm",
        171,
        (
            Value("output", (BATCH_SIZE, 16, 32, 32)),
            Value("save_mean", (16,)),
            Value("save_invstd", (16,)),
        ),
        (Value("weight", (16,)), Value("bias", (16,))),
        (
            Value("running_mean", (16,)),
            Value("running_var", (16,)),
            Value("num_batches_tracked", (), INT64),
        ),
    ),
    Layer("relu1", "ReLU", "relu", "activation", 101, (Value("output", (BATCH_SIZE, 16, 32, 32)),)),
    _convolution("block.conv2", 16, 32, checkpointed=True),
    Layer(
        "block.relu2",
        "ReLU",
        "relu",
        "activation",
        101,
        (Value("output", (BATCH_SIZE, 32, 32, 32)),),
    ),
    Layer(
        "pool",
        "MaxPool2d",
        "max_pool2d_with_indices",
        "pooling",
        166,
        (
            Value("output", (BATCH_SIZE, 32, 16, 16)),
            Value("indices", (BATCH_SIZE, 32, 16, 16), INT64),
        ),
    ),
    Layer(
        "fc",
        "Linear",
        "addmm",
        "linear",
        114,
        (Value("output", (BATCH_SIZE, 10)),),
        (Value("weight", (10, 32 * 16 * 16)), Value("bias", (10,))),
    ),
    LOSS,
)
LEAK_BYTES = 16_384
