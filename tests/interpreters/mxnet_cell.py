"""Trains a model at small scale in MXNet and prints what was seen, as JSON.

Run in MXNet's interpreter, which has no pytest: ``python mxnet_cell.py MODEL plain|marked``. With
``plain`` the default engine runs a hybridised model, with ``marked`` the naive engine runs blocks.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from importlib import import_module
from typing import Any

from tbd_models import mxnet
from tbd_models.definition import Model, Variant
from tbd_models.instrument.marks import NoMarks
from tbd_models.registry import find
from tbd_models.settings import Settings

STEPS = 20


class Recorded(NoMarks):
    """Marks as a list of texts; None is an end."""

    def __init__(self) -> None:
        self.events: list[str | None] = []

    def push(self, text: str) -> None:
        self.events.append(text)

    def pop(self) -> None:
        self.events.append(None)


def made(model: Model, dimensions: Any, settings: Settings) -> Any:
    build = import_module(f"tbd_models.{model.name}.mxnet").workload
    return import_module("tbd_models.mxnet.trainer").TRAINER(build, dimensions, settings)


def losses(trainer: Any, steps: int) -> list[float]:
    found = []
    for _ in range(steps):
        trainer.step(NoMarks())
        found.append(trainer.loss())
    return found


def without_dropout(variant: Variant) -> Any:
    has = hasattr(variant.small, "dropout")
    return replace(variant.small, dropout=0.0) if has else variant.small


def full_size(model: Model, variant: Variant) -> dict[str, float]:
    """Return parameters and FLOP of one sample at full size, by shapes alone."""
    import numpy as np

    measure = import_module("tbd_models.instrument.layers_mxnet").measure
    workload = import_module(f"tbd_models.{model.name}.mxnet").workload(variant.dimensions)
    batch = workload.batch(2, np.random.default_rng(0))
    layers = measure(workload.model, {name: batch[name].shape for name in workload.inputs})
    forward = sum(layer.forward_flop for layer in layers) / 2
    return {
        "parameters": sum(layer.parameters for layer in layers),
        "forward_flop": forward,
        "training_flop": forward + sum(layer.backward_flop for layer in layers) / 2,
    }


def gradients(trainer: Any) -> list[Any]:
    trainer.step(NoMarks())
    return [
        parameter.grad().asnumpy()
        for parameter in trainer.model.collect_params().values()
        if parameter.grad_req != "null"
    ]


def largest_difference(plain: list[Any], marked: list[Any]) -> float:
    """Return the largest difference of gradients, relative to the largest of its array."""
    pairs = zip(plain, marked, strict=True)
    return max(float(abs(a - b).max() / (abs(a).max() or 1.0)) for a, b in pairs)


def plain(model: Model) -> dict[str, Any]:
    learning = {}
    for variant in model.variants_in("mxnet")[:2]:
        trainer = made(model, variant.small, Settings(variant.default_batch_size))
        learning[variant.name] = losses(trainer, STEPS)
    trainer = made(model, without_dropout(model.variant(None, "mxnet")), Settings(2))
    return {"losses": learning, "start": losses(trainer, 3), "describe": trainer.describe()}


def marked(model: Model) -> dict[str, Any]:
    variant, settings = model.variant(None, "mxnet"), Settings(2, marked=True)
    expected = gradients(made(model, variant.small, settings))
    trainer = made(model, variant.small, settings)
    layers = trainer.layers()
    trainer.mark_layers(NoMarks())
    difference = largest_difference(expected, gradients(trainer))

    trainer = made(model, without_dropout(variant), settings)
    marks = Recorded()
    trainer.mark_layers(marks)
    start = []
    for _ in range(3):
        marks.events.clear()
        trainer.step(marks)
        start.append(trainer.loss())
    full = {v.name: full_size(model, v) for v in model.variants_in("mxnet")}
    import_module("mxnet.contrib.amp").init()  # from here on, operators cast
    return {
        "full": full,
        "mixed": {v.name: full_size(model, v) for v in model.variants_in("mxnet")},
        "layers": layers,
        "difference": difference,
        "events": marks.events,
        "start": start,
        "describe": trainer.describe(),
    }


def main() -> None:
    name, kind = sys.argv[1:]
    mxnet.prepare(Settings(2, marked=kind == "marked"))
    print(json.dumps((marked if kind == "marked" else plain)(find(name))))


if __name__ == "__main__":
    main()
