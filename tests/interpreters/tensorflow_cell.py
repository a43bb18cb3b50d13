"""What a TensorFlow cell of the suite does, as JSON: run in an interpreter that has TensorFlow.

Usage: python tensorflow_cell.py MODEL [VARIANT]
"""

from __future__ import annotations

import json
import sys
import threading
from dataclasses import replace
from typing import Any

from tbd_models.registry import find, implementation
from tbd_models.settings import Settings
from tbd_models.tensorflow import prepare

STEPS = 20
EAGER = ("resnet50", "seq2seq", "transformer")  # the others take long operation by operation


class Recorder:
    """Marks that are kept: what began and ended, and on which thread."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int]] = []

    def push(self, text: str) -> None:
        self.events.append((text, threading.get_ident()))

    def pop(self) -> None:
        self.events.append(("", threading.get_ident()))


def nested(events: list[tuple[str, int]]) -> list[list[str]]:
    """Return every range as the texts of the ranges around it and its own, on its thread."""
    stacks: dict[int, list[str]] = {}
    found = []
    for text, thread in events:
        stack = stacks.setdefault(thread, [])
        if text:
            stack.append(text)
            found.append(list(stack))
        else:
            stack.pop()  # raises where nothing is open
    assert not any(stacks.values()), "a range was not ended"
    return found


def main(name: str, variant_name: str | None = None) -> None:
    """Train at small scale and count at full size."""
    prepare(Settings(1))
    model = find(name)
    variant = model.variant(variant_name, "tensorflow")
    build = implementation(model, "tensorflow").workload
    from tbd_models.instrument.weights_tensorflow import weights_of_zeros
    from tbd_models.tensorflow.trainer import TRAINER

    small = variant.small
    if hasattr(small, "blocks"):  # with and without a shortcut that changes size or width
        small = replace(small, blocks=(2, 1, 1, 1))

    def trainer(**settings: Any) -> Any:
        return TRAINER(build, small, Settings(batch_size=4, **settings))

    marked = trainer(marked=True)  # first: TensorFlow's threads are chosen once
    layers = marked.layers()
    result: dict[str, Any] = {"small_layers": layers}
    recorder = Recorder()
    marked.mark_layers(recorder)
    losses = []
    for _ in range(2):
        recorder.events.clear()
        marked.step(recorder)
        losses.append(marked.loss())
    result["marked_losses"] = losses
    result["ranges"] = nested(recorder.events)
    result["layer_threads"] = len({t for text, t in recorder.events if text.startswith("layer")})

    if name in EAGER:
        eager = trainer(execution="eager")
        eager.mark_layers(eager_recorder := Recorder())
        eager.step(eager_recorder)
        result["eager_marked_losses"] = [eager.loss()]
        result["eager_ranges"] = nested(eager_recorder.events)
        # Without marks, and without any rewriting of graphs.
        reference = trainer(execution="eager")
        result["reference_losses"] = []
        for _ in range(2):
            reference.step(_Silent())
            result["reference_losses"].append(reference.loss())

    plain = trainer()
    result["alike"] = alike(plain.workload.model)
    result["losses"] = []
    for _ in range(STEPS):
        plain.step(_Silent())
        result["losses"].append(plain.loss())
    with weights_of_zeros():
        result["full"] = full_size(build(variant.dimensions))
    json.dump(result, sys.stdout)


def alike(model: Any) -> list[list[str]]:
    """Return groups of random weights, by path, whose first values are equal.

    Equal seeds give weights of different shapes the same first values, too.
    """
    import numpy as np

    groups: dict[bytes, list[str]] = {}
    for weight in model.trainable_weights:
        values = np.asarray(weight).ravel()
        if len(np.unique(values)) > 1:
            groups.setdefault(values[:4].tobytes(), []).append(weight.path)
    return [paths for paths in groups.values() if len(paths) > 1]


class _Silent:
    def push(self, text: str) -> None:
        pass

    def pop(self) -> None:
        pass


def full_size(work: Any) -> dict[str, float]:
    """Return parameters and FLOP of one sample; nothing is computed backward."""
    import numpy as np
    import tensorflow as tf

    from tbd_models.instrument.layers_tensorflow import measure

    arrays = work.convert(work.batch(1, np.random.default_rng(0)))
    batch = {key: tf.constant(value) for key, value in arrays.items()}

    def step() -> list[Any]:
        found = []
        for turn in work.turns:
            with tf.GradientTape() as tape:
                loss = turn.loss(turn.forward(batch), batch)
            found.append(tape.gradient(loss, [w.value for w in turn.weights()]))
        return found

    if not work.model.built:
        for turn in work.turns:
            turn.forward(batch)  # makes the weights, in less time than a graph
    step_layers = measure(work.model, step, 1)
    return {
        field: sum(layer[field] for layer in step_layers)
        for field in ("parameters", "forward_flop", "backward_flop")
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
