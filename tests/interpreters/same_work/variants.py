"""Train two small models on a CPU in many variants, and record each with torch.profiler.

Usage: python variants.py DIRECTORY [--without-shapes] [NAME ...]

Each variant of each model is a trace DIRECTORY/MODEL_VARIANT.json of four marked steps. ``HONEST``
variants do the same work as ``base``, ``FAKES`` do less.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint

STEPS, WARMUP = 4, 2
WIDTH, HEADS, VOCABULARY, CLASSES = 64, 4, 50, 10


@dataclass(frozen=True)
class Variant:
    """How to train; the defaults are those of the base."""

    batch: int = 8
    length: int = 32  # positions of a text, or a side of an image
    layers: int = 3
    width: int = WIDTH
    passes: int = 1  # of an optimizer step
    attention: str = "products"  # or fused
    fused_qkv: bool = False
    groups: int = 1
    checkpointed: bool = False
    frozen: int = 0  # first layers without gradients
    skip_backward: bool = False  # in every second step
    trains: bool = True
    updated: float = 1.0  # part of the parameters that the optimizer gets
    loss_part: float = 1.0  # part of the samples in the loss
    optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.SGD
    options: dict[str, Any] = field(default_factory=dict)
    autocast: bool = False
    compiled: bool = False
    channels_last: bool = False
    clip: bool = False
    reads_loss: bool = True


class Attention(nn.Module):
    def __init__(self, v: Variant) -> None:
        super().__init__()
        self.variant = v
        if v.fused_qkv:
            self.qkv = nn.Linear(v.width, 3 * v.width)
        else:
            self.q, self.k, self.v = (nn.Linear(v.width, v.width) for _ in range(3))
        self.out = nn.Linear(v.width, v.width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.qkv(x).chunk(3, -1) if self.variant.fused_qkv else [
            layer(x) for layer in (self.q, self.k, self.v)
        ]  # fmt: skip
        q, k, v = (t.view(batch, length, HEADS, -1).transpose(1, 2) for t in parts)
        if self.variant.attention == "fused":
            y = functional.scaled_dot_product_attention(q, k, v)
        else:
            y = (q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5).softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, v: Variant) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(v.width) for _ in range(2))
        self.attention = Attention(v)
        self.up, self.down = nn.Linear(v.width, 4 * v.width), nn.Linear(4 * v.width, v.width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norms[0](x))
        return x + self.down(functional.gelu(self.up(self.norms[1](x))))


class Text(nn.Module):
    """A transformer that predicts a token at each position."""

    def __init__(self, v: Variant) -> None:
        super().__init__()
        self.variant = v
        self.embedding = nn.Embedding(VOCABULARY, v.width)
        self.layers = nn.ModuleList(Block(v) for _ in range(v.layers))
        self.head = nn.Linear(v.width, VOCABULARY)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embedding(x)
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.variant.checkpointed else layer(x)
        return self.head(x).transpose(1, 2)


class Images(nn.Module):
    """A network of convolutions that names an image."""

    def __init__(self, v: Variant) -> None:
        super().__init__()
        self.variant = v
        self.first = nn.Conv2d(3, v.width // 2, 3, stride=2, padding=1)
        self.layers = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(v.width // 2, v.width // 2, 3, padding=1, groups=v.groups),
                nn.BatchNorm2d(v.width // 2),
                nn.ReLU(),
            )
            for _ in range(v.layers)
        )
        self.head = nn.Linear(v.width // 2, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.variant.checkpointed else layer(x)
        return self.head(x.mean((2, 3)))


MODELS: dict[str, type[nn.Module]] = {"text": Text, "images": Images}
BASE = Variant(options={"lr": 0.01})
ADAM = replace(BASE, optimizer=torch.optim.AdamW, options={"lr": 0.01})
HONEST: dict[str, Variant] = {
    "again": BASE,
    "autocast": replace(BASE, autocast=True),
    "compiled": replace(BASE, compiled=True),
    "fused_attention": replace(BASE, attention="fused"),
    "fused_qkv": replace(BASE, fused_qkv=True),
    "foreach": replace(BASE, options={"lr": 0.01, "foreach": True}),
    "fused_optimizer": replace(BASE, options={"lr": 0.01, "fused": True}),
    "other_optimizer": ADAM,
    "momentum": replace(BASE, options={"lr": 0.01, "momentum": 0.9}),
    "channels_last": replace(BASE, channels_last=True),
    "checkpointed": replace(BASE, checkpointed=True),
    "accumulated": replace(BASE, batch=BASE.batch // 2, passes=2),
    "clipped": replace(BASE, clip=True),
    "loss_not_read": replace(BASE, reads_loss=False),
}
FAKES: dict[str, tuple[Variant, str]] = {
    "half_batch": (replace(BASE, batch=BASE.batch // 2), "batch"),
    "half_length": (replace(BASE, length=BASE.length // 2), "sequence input"),
    "narrow": (replace(BASE, width=3 * WIDTH // 4), "parameters"),
    "fewer_layers": (replace(BASE, layers=2), "parameters"),
    "frozen": (replace(BASE, frozen=2), "backward"),
    "frozen_checkpointed": (replace(BASE, frozen=2, checkpointed=True), "backward"),
    "evaluation": (replace(BASE, trains=False), "backward"),
    "half_backward": (replace(BASE, skip_backward=True), "backward"),
    "half_optimizer": (replace(BASE, updated=0.5), "optimizer"),
    "half_loss": (replace(BASE, loss_part=0.5), "loss"),
    "grouped": (replace(BASE, groups=2), "FLOP"),
    "half_batch_autocast": (replace(BASE, batch=BASE.batch // 2, autocast=True), "batch"),
    "half_batch_fused": (
        replace(BASE, batch=BASE.batch // 2, attention="fused", fused_qkv=True), "batch",
    ),
    "half_accumulated": (replace(BASE, batch=BASE.batch // 4, passes=2), "rows"),
}  # fmt: skip
# Changes without a meaning for the other model.
ONLY = {
    "fused_attention": "text",
    "fused_qkv": "text",
    "grouped": "images",
    "channels_last": "images",
}


def names(model: str) -> tuple[list[str], list[str]]:
    """Return the honest variants and the fakes of a model."""
    own = [[n for n in group if ONLY.get(n, model) == model] for group in (HONEST, FAKES)]
    return own[0], own[1]


def _batch(model: str, v: Variant) -> tuple[Tensor, Tensor]:
    if model == "text":
        x = torch.randint(VOCABULARY, (v.batch, v.length))
        return x, torch.randint(VOCABULARY, (v.batch, v.length))
    x = torch.randn(v.batch, 3, v.length, v.length)
    if v.channels_last:
        x = x.to(memory_format=torch.channels_last)
    return x, torch.randint(CLASSES, (v.batch,))


def _optimizer(network: nn.Module, v: Variant) -> torch.optim.Optimizer:
    parameters = [p for p in network.parameters() if p.requires_grad]
    return v.optimizer(parameters[: max(1, int(len(parameters) * v.updated))], **v.options)


def steps(model: str, v: Variant) -> Iterator[Callable[[], None]]:
    """Yield a function that trains a step, for each step."""
    torch.manual_seed(0)
    network = MODELS[model](v)
    for layer in list(network.layers)[: v.frozen]:
        layer.requires_grad_(False)
    if v.frozen:  # nothing before them needs a gradient, either
        (network.embedding if model == "text" else network.first).requires_grad_(False)
    if v.channels_last:
        network = network.to(memory_format=torch.channels_last)
    optimizer = _optimizer(network, v)
    run = torch.compile(network) if v.compiled else network

    def step(number: int) -> None:
        for _ in range(v.passes):
            x, y = _batch(model, v)
            with (
                torch.autocast("cpu", torch.bfloat16, enabled=v.autocast),
                contextlib.nullcontext() if v.trains else torch.no_grad(),
            ):
                out = run(x)
                kept = max(1, int(len(out) * v.loss_part))
                loss = functional.cross_entropy(out[:kept].float(), y[:kept])
            if v.trains and not (v.skip_backward and number % 2):
                loss.backward()
        if v.clip:
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        if v.trains:
            optimizer.step()
            optimizer.zero_grad()
        if v.reads_loss:
            loss.item()

    for number in range(WARMUP + STEPS):
        yield lambda number=number: step(number)


def record(model: str, v: Variant, path: Path, *, shapes: bool = True) -> None:
    """Train and write the trace of the steps after the warm-up."""
    all_steps = list(steps(model, v))
    for step in all_steps[:WARMUP]:
        step()
    with profile(activities=[ProfilerActivity.CPU], record_shapes=shapes) as profiler:
        for step in all_steps[WARMUP:]:
            with torch.profiler.record_function(f"step {all_steps.index(step)}"):
                step()
    profiler.export_chrome_trace(str(path))


def main(directory: str, *options: str) -> None:
    """Record the named variants, or all of them."""
    torch.set_num_threads(1)
    shapes = "--without-shapes" not in options
    wanted = [option for option in options if not option.startswith("--")]
    for model in MODELS:
        honest, fakes = names(model)
        variants = {"base": BASE} | {n: HONEST[n] for n in honest} | {n: FAKES[n][0] for n in fakes}
        for name, v in variants.items():
            if not wanted or name in wanted:
                record(model, v, Path(directory, f"{model}_{name}.json"), shapes=shapes)


if __name__ == "__main__":
    main(*sys.argv[1:])
