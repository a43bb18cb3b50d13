"""What WGAN-GP or MiniGo does in TensorFlow, as JSON: run in an interpreter that has TensorFlow.

Usage: python tensorflow_gan_go.py wgan|minigo
"""

from __future__ import annotations

import json
import sys
from typing import Any

from tensorflow_cell import STEPS, Recorder, _Silent, nested

from tbd_models.registry import find, implementation
from tbd_models.settings import Settings
from tbd_models.tensorflow import prepare

BATCH = 4


def main(name: str) -> None:
    """Train at small scale and count at full size."""
    prepare(Settings(1))
    model = find(name)
    build = implementation(model, "tensorflow").workload
    from tbd_models.tensorflow.trainer import TRAINER

    def small(**settings: Any) -> Any:
        return TRAINER(build, model.variants[0].small, Settings(batch_size=BATCH, **settings))

    result: dict[str, Any] = {"differences": {}, "ranges": {}}
    graph = small(marked=True)  # first: TensorFlow's threads are chosen once
    result["layers"] = graph.layers()
    expected = gradients(small(execution="eager"))
    for execution, marked in (("graph", graph), ("eager", small(execution="eager"))):
        recorder = Recorder()
        marked.mark_layers(recorder)
        found = gradients(marked)
        result["differences"][execution] = [
            difference(a, b) for a, b in zip(found, expected, strict=True)
        ]
        result["ranges"][execution] = nested(recorder.events)
    plain = small()
    result["losses"] = []
    for _ in range(STEPS):
        plain.step(_Silent())
        result["losses"].append(plain.loss())
    result["full"] = {
        variant.name: full_size(TRAINER(build, variant.dimensions, Settings(batch_size=1)))
        for variant in model.variants
    }
    if name == "minigo":
        result["playing"] = playing(
            TRAINER(build, model.variant("selfplay").small, Settings(BATCH))
        )
    json.dump(result, sys.stdout)


def playing(trainer: Any) -> list[list[str]]:
    """Return the ranges of an iteration whose batch comes from games."""
    recorder = Recorder()
    trainer.mark_layers(recorder)
    trainer.step(recorder)
    return nested(recorder.events)


def gradients(trainer: Any) -> list[list[Any]]:
    """Return the gradients of every turn, weights staying what they are."""
    import tensorflow as tf

    from tbd_models.instrument.tensorflow import GraphMarks

    marks = GraphMarks(trainer._marks)
    found = []
    for turn in trainer.workload.turns:

        def run(batch: Any, turn: Any = turn) -> Any:
            return trainer._gradients(turn, batch, marks)[1]

        step = tf.function(run) if trainer._execution == "graph" else run
        found.append([gradient.numpy() for gradient in step(trainer._batches(0))])
    return found


def difference(found: list[Any], expected: list[Any]) -> float:
    """Return the largest difference, as a part of the largest gradient of all weights."""
    largest = max(float(abs(array).max()) for array in expected)
    pairs = zip(found, expected, strict=True)
    return max(float(abs(a - b).max()) for a, b in pairs) / largest


def full_size(trainer: Any) -> dict[str, float]:
    """Return parameters and FLOP of an iteration per sample; nothing is computed."""
    layers = trainer.layers()
    return {
        field: sum(layer[field] for layer in layers)
        for field in ("parameters", "forward_flop", "backward_flop")
    } | {"trained": trainer.describe()["parameters"]}


if __name__ == "__main__":
    main(*sys.argv[1:])
