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
    expected, _ = gradients(small(execution="eager"))
    for execution, marked in (("graph", graph), ("eager", small(execution="eager"))):
        recorder = Recorder()
        marked.mark_layers(recorder)
        found, filters = gradients(marked)
        if execution == "graph":
            result["weight_gradients"] = filters
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


def gradients(trainer: Any) -> tuple[list[list[Any]], list[int]]:
    """Return the gradients of every turn, weights staying what they are.

    And of a graph how many gradients of a convolution's weights are computed in each turn.
    """
    import tensorflow as tf

    from tbd_models.instrument.tensorflow import GraphMarks

    marks = GraphMarks(trainer._marks)
    batch = trainer._batches(0)
    found, filters = [], []
    for turn in trainer.workload.turns:

        def run(batch: Any, turn: Any = turn) -> Any:
            return trainer._gradients(turn, batch, marks)[1]

        step = tf.function(run) if trainer._execution == "graph" else run
        found.append([gradient.numpy() for gradient in step(batch)])
        if trainer._execution == "graph":
            run_types = [op.type for op in executed(step.get_concrete_function(batch).graph)]
            filters.append(run_types.count("Conv2DBackpropFilter"))
    return found, filters


def executed(graph: Any) -> set[Any]:
    """Return the operations of a graph that are not pruned: what outputs and marks wait for."""
    waiting = [op for op in graph.get_operations() if op.type == "PyFunc"]
    waiting += [tensor.op for tensor in graph.outputs]
    found = set(waiting)
    while waiting:
        op = waiting.pop()
        for before in [tensor.op for tensor in op.inputs] + op.control_inputs:
            if before not in found:
                found.add(before)
                waiting.append(before)
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
