"""Marks a small model in MXNet in unusual circumstances, and prints what was seen, as JSON."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from tbd_models import mxnet
from tbd_models.settings import Settings

mxnet.prepare(Settings(1, marked=True))

import mxnet as mx  # noqa: E402
from mxnet import autograd  # noqa: E402
from mxnet.gluon import HybridBlock, nn  # noqa: E402

from tbd_models.instrument.mxnet import LayerMarks, layer_names  # noqa: E402


class Recorded:
    """Marks as a list of texts; None is an end."""

    def __init__(self) -> None:
        self.events: list[str | None] = []

    def push(self, text: str) -> None:
        self.events.append(text)

    def pop(self) -> None:
        self.events.append(None)

    def taken(self) -> list[str | None]:
        taken, self.events = self.events, []
        return taken


class Twice(HybridBlock):
    """A shortcut around one layer that is called twice; fails on a vector."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Dense(3, in_units=3)

    def hybrid_forward(self, F: Any, x: Any, y: Any) -> Any:
        """Return features of the shape of ``x``."""
        return x + self.dense(self.dense(F.broadcast_add(x, y)))


def main() -> None:
    """Print what was seen."""
    mx.random.seed(0)
    model, marks = Twice(), Recorded()
    model.initialize()
    attributes = sorted(vars(model))
    x, y = mx.nd.ones((2, 3)), mx.nd.ones((2, 3))
    x.attach_grad(grad_req="add")

    def train() -> Any:
        with autograd.record():
            loss = (model(x, y) ** 2).sum()
        loss.backward()
        return loss

    x.grad[:] = 5
    plain = float(train().asscalar()), x.grad.asnumpy().tolist()
    x.grad[:] = 5
    layers = LayerMarks(model, marks)
    marked = float(train().asscalar()), x.grad.asnumpy().tolist()
    seen = {"plain": plain, "marked": marked, "training": marks.taken()}
    model(x, y)
    seen["evaluation"] = marks.taken()
    with suppress(mx.MXNetError), autograd.record():
        model(mx.nd.ones((4, 5)), y)
    seen["failure"] = marks.taken()
    layers.remove()
    train()
    seen["removed"] = marks.taken()
    seen["attributes"] = sorted(vars(model)) == attributes
    seen["names"] = list(layer_names(model).values())
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
