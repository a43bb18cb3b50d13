"""Trains on padded batches in TensorFlow or MXNet and prints what was seen, as JSON.

Run in the framework's interpreter: ``python padded_batches.py tensorflow|mxnet``.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from tbd_models import __main__ as program
from tbd_models.corpus import PlannedBatch
from tbd_models.registry import find
from tbd_models.settings import Settings

FRAMEWORK = sys.argv[1]
import_module(f"tbd_models.{FRAMEWORK}").prepare(Settings(batch_size=2))


class TensorFlow:
    """Scores and losses of TensorFlow's workloads as arrays."""

    def __init__(self) -> None:
        self.tensor = import_module("tensorflow").constant

    def scores(self, work: Any, batch: Any) -> Any:
        names = [name for name in ("source", "target", "padding") if name in batch]
        return np.asarray(work.model(*(batch[name] for name in names), training=False))

    def loss(self, work: Any, scores: Any, batch: Any) -> float:
        return float(work.turns[0].loss(self.tensor(scores), batch))

    def ctc(self, function: Any, scores: Any, batch: Any) -> float:
        # Scores here are (steps, N, labels).
        return float(function(self.tensor(scores.swapaxes(0, 1)), batch))


class MXNet:
    """Scores and losses of MXNet's workloads as arrays."""

    def __init__(self) -> None:
        self.tensor = import_module("mxnet").nd.array

    def scores(self, work: Any, batch: Any) -> Any:
        return work.forward(batch).asnumpy()

    def loss(self, work: Any, scores: Any, batch: Any) -> float:
        return float(work.loss(self.tensor(scores), batch).asscalar())

    def ctc(self, function: Any, scores: Any, batch: Any) -> float:
        return float(function(self.tensor(scores), batch).asscalar())


FRAME: Any = TensorFlow() if FRAMEWORK == "tensorflow" else MXNet()


def workload(name: str) -> Any:
    package = import_module(f"tbd_models.{name}")
    small = find(name).variant(None, FRAMEWORK).small
    build = import_module(f"tbd_models.{name}.{FRAMEWORK}").workload
    return build(package.corpus(small).dimensions or small)


def tensors(arrays: dict[str, Any]) -> dict[str, Any]:
    return {name: FRAME.tensor(array) for name, array in arrays.items()}


def sized(work: Any, lengths: list[int]) -> dict[str, Any]:
    planned = PlannedBatch(np.array(lengths)[:, None], (max(lengths),))
    arrays: dict[str, Any] = work.sized(planned, np.random.default_rng(1))
    return arrays


def translation() -> dict[str, Any]:
    """Return scores of a sentence alone and beside a longer one, and the loss of both."""
    work = workload("transformer")
    if FRAMEWORK == "mxnet":
        work.model.initialize(work.initializer)
    both, alone = sized(work, [3, 5]), sized(work, [3])
    scores = FRAME.scores(work, tensors(both))
    return {
        "beside": scores[0, :3].tolist(),
        "alone": FRAME.scores(work, tensors(alone))[0].tolist(),
        "scores": scores.tolist(),
        "label": both["label"].tolist(),
        "loss": FRAME.loss(work, scores, tensors(both)),
    }


def speech() -> dict[str, Any]:
    """Return the CTC loss of two utterances, and of each without its padding."""
    work = workload("deepspeech2")
    ctc = import_module(f"tbd_models.deepspeech2.{FRAMEWORK}").ctc
    batch = sized(work, [24, 60])
    steps = batch["steps"].tolist()
    scores = np.random.default_rng(2).standard_normal((max(steps), 2, 29)).astype(np.float32)
    alone = []
    for number, count in enumerate(steps):
        characters = batch["transcript"][number : number + 1, : batch["characters"][number]]
        own = scores[:count, number : number + 1]
        alone.append(FRAME.ctc(ctc, own, tensors({"transcript": characters})))
    return {"both": FRAME.ctc(ctc, scores, tensors(batch)), "alone": alone}


def detection() -> dict[str, Any]:
    """Return loss and gradient of two images, in graphs of their size and of any size.

    The sides are the longest ones. ``anchors`` is True where a graph has those of the size.
    """
    tf = import_module("tensorflow")
    from tbd_models.tensorflow import boxes
    from tbd_models.tensorflow.batches import signature, tensors

    work, d = workload("maskrcnn"), find("maskrcnn").variant(None).small
    planned = [
        PlannedBatch(np.array([(128, 170), (100, 213)]), (128, 224)),
        PlannedBatch(np.array([(170, 128), (213, 100)]), (224, 128)),
    ]
    batches = [tensors(work, work.sized(plan, np.random.default_rng(1))) for plan in planned]
    (turn,) = work.turns

    def step(batch: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = turn.loss(turn.forward(batch), batch)
        found = tape.gradient(loss, [weight.value for weight in turn.weights()])
        levels = work.model.get_layer("rpn_targets").anchors.levels(batch["image"])
        return loss, tf.linalg.global_norm(found), tf.concat(levels, 0)

    def expected(size: tuple[int, ...]) -> Any:
        maps = replace(d, height=size[0], width=size[1]).maps
        each = zip(maps, d.strides, d.anchor_sizes, strict=True)
        grids = [boxes.grid_anchors(*cells, s, [side], d.anchor_ratios) for cells, s, side in each]
        return np.concatenate(grids)

    of_size, of_any = tf.function(step), tf.function(step, input_signature=[signature(batches)])
    seeds = [work.model.get_layer(name).seed.state for name in ("rpn_targets", "box_targets")]
    result: dict[str, Any] = {"anchors": []}
    for name, graph in (("of_size", of_size), ("of_any", of_any)):
        for seed in seeds:
            seed.assign([1, 2])
        result[name] = []
        for batch, plan in zip(batches, planned, strict=True):
            loss, gradient, anchors = graph(batch)
            result[name].append([float(loss), float(gradient)])
            result["anchors"].append(np.array_equal(anchors, expected(plan.padded)))
    return result


def run(model: str, rows: str) -> dict[str, Any]:
    """Return the report of a run on samples of a histogram, and its layers."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        (place / "two.csv").write_text(f"first,last,count\n{rows}")
        sys.argv = [
            *("tbd_models", "run", model, f"--framework={FRAMEWORK}", "--scale=small"),
            *("--device=cpu", "--batch-size=3", f"--lengths={place / 'two.csv'}"),
            *("--warmup=2", "--iterations=5"),
            *(f"--report={place / 'report.json'}", f"--layers={place / 'layers.json'}"),
        ]
        code = program.main()
        return {
            "code": code,
            "report": json.loads((place / "report.json").read_text()),
            "layers": json.loads((place / "layers.json").read_text())["layers"],
        }


found = {
    "translation": translation(),
    "speech": speech(),
    "run": run("seq2seq", "10,10,1\n11,14,0\n15,15,1\n"),
}
if FRAMEWORK == "tensorflow":
    found["detection"] = detection()
    # Heights of 3/4 and 4/3 of the width.
    found["images"] = run("maskrcnn", "75,75,1\n76,132,0\n133,133,1\n")
print(json.dumps(found))
