"""What WGAN-GP or MiniGo does in TensorFlow, as JSON: run in an interpreter that has TensorFlow.

Usage: python tensorflow_gan_go.py wgan|minigo PART [VARIANT]
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


def main(name: str, part: str, variant: str | None = None) -> None:
    """Do a part at small scale, or count a variant at full size."""
    prepare(Settings(1))
    model = find(name)
    build = implementation(model, "tensorflow").workload
    from tbd_models.tensorflow.trainer import TRAINER

    def small(**settings: Any) -> Any:
        return TRAINER(build, model.variants[0].small, Settings(batch_size=BATCH, **settings))

    found: Any
    match part:
        case "layers":
            found = small(marked=True).layers()
        case "graph" | "eager":
            # First, where it is marked: TensorFlow's threads are chosen once.
            of_graph = {"marked": True} if part == "graph" else {"execution": "eager"}
            marked = small(**of_graph)
            marked.mark_layers(recorder := Recorder())
            pairs = zip(gradients(marked), gradients(small(execution="eager")), strict=True)
            found = {
                "differences": [difference(a, b) for a, b in pairs],
                "ranges": nested(recorder.events),
            }
        case "weight_gradients":
            marked = small(marked=True)
            marked.mark_layers(Recorder())
            found = weight_gradients(marked)
        case "losses":
            plain, found = small(), []
            for _ in range(STEPS):
                plain.step(_Silent())
                found.append(plain.loss())
        case "full":
            dimensions = model.variant(variant).dimensions
            found = full_size(TRAINER(build, dimensions, Settings(batch_size=1)))
        case "playing":
            settings = Settings(BATCH, marked=True)
            found = playing(TRAINER(build, model.variant("selfplay").small, settings))
        case _:
            raise ValueError(part)
    json.dump(found, sys.stdout)


def playing(trainer: Any) -> list[list[str]]:
    """Return the ranges of an iteration whose batch comes from games."""
    recorder = Recorder()
    trainer.mark_layers(recorder)
    trainer.step(recorder)
    return nested(recorder.events)


def steps(trainer: Any) -> list[Any]:
    """Return a function of a batch for every turn, which returns its gradients."""
    import tensorflow as tf

    from tbd_models.instrument.tensorflow import GraphMarks

    marks = GraphMarks(trainer._marks)

    def step(turn: Any) -> Any:
        def run(batch: Any) -> Any:
            return trainer._gradients(turn, batch, marks)[1]

        return tf.function(run) if trainer._execution == "graph" else run

    return [step(turn) for turn in trainer.workload.turns]


def gradients(trainer: Any) -> list[list[Any]]:
    """Return the gradients of every turn; the weights are not updated."""
    batch = trainer._batches(0)
    return [[gradient.numpy() for gradient in step(batch)] for step in steps(trainer)]


def weight_gradients(trainer: Any) -> list[int]:
    """Return how many gradients of a convolution's weights each turn would compute."""
    batch = trainer._batches(0)
    graphs = [step.get_concrete_function(batch).graph for step in steps(trainer)]
    types = [[op.type for op in executed(graph)] for graph in graphs]
    return [each.count("Conv2DBackpropFilter") for each in types]


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
