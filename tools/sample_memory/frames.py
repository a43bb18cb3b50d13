"""Call stacks of the sample, innermost frame first, as PyTorch's frames look."""

from __future__ import annotations

from sample_memory.network import LIBRARY, Layer

Frame = tuple[str, str, int]  # function, file, line
Stack = tuple[Frame, ...]

_CALL = ("_call_impl", f"{LIBRARY}/nn/modules/module.py", 1527)
_MODEL = ("forward", "train.py", 31)
_TRAINING: Stack = (("<module>", "train.py", 70),)
_ENGINE: Stack = (
    ("torch::autograd::Engine::evaluate_function", "??", 0),
    ("torch::autograd::Engine::thread_main", "??", 0),
)
_WORKSPACE: Stack = (("at::cuda::getNewWorkspace", "??", 0),)


def _operator(name: str) -> Frame:
    return (f"at::_ops::{name}::call", "??", 0)


def script(line: int, *inner: Frame) -> Stack:
    """Return a stack of the training script."""
    return (*inner, ("train_step", "train.py", line), *_TRAINING)


def forward(layer: Layer) -> Stack:
    """Return the stack of a layer's forward pass."""
    inner = (_operator(layer.operator), ("forward", layer.source, layer.line), _CALL)
    return script(52, *inner, _MODEL, _CALL)


def recompute(layer: Layer) -> Stack:
    """Return the stack of a forward pass that checkpointing repeats."""
    checkpoint = ("recompute_fn", f"{LIBRARY}/utils/checkpoint.py", 1390)
    inner = (_operator(layer.operator), ("forward", layer.source, layer.line), _CALL)
    return (*inner, checkpoint, *_ENGINE)


def backward(layer: Layer) -> Stack:
    """Return the stack of a layer's backward pass, which has no Python frames."""
    node = f"torch::autograd::generated::{layer.type}Backward0::apply"
    return (_operator(f"{layer.operator}_backward"), (node, "??", 0), *_ENGINE)


def workspace(stack: Stack) -> Stack:
    """Return a stack that allocates scratch memory of a library."""
    return (*_WORKSPACE, *stack)


TRANSFER = script(50, _operator("_to_copy"), ("at::native::_to_copy", "??", 0))
SEED = script(54, _operator("ones_like"), ("_make_grads", f"{LIBRARY}/autograd/__init__.py", 117))
ZERO_GRAD = script(51, ("zero_grad", f"{LIBRARY}/optim/optimizer.py", 816))
STEP = script(55, _operator("_foreach_mul_Scalar"), ("step", f"{LIBRARY}/optim/sgd.py", 80))
LEAK = script(56, _operator("clone"))
RELEASE = script(57)
