"""Train on one rank of several with TensorFlow, and print what came of it as JSON.

Usage: python tensorflow_ranks.py RANK_THAT_DIES (none: -1)
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import numpy as np

from tbd_models.instrument.marks import Marks
from tbd_models.settings import Settings
from tbd_models.synthetic import Batch
from tbd_models.tensorflow import prepare

WORDS, WIDTH, STEPS, RATE, SIZE = 5, 3, 3, 0.5, 4


class Texts(Marks):
    """Marks as a list of texts."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def push(self, text: str) -> None:
        self.texts.append(text)

    def pop(self) -> None:
        self.texts.append("")


def samples(size: int, rng: np.random.Generator) -> Batch:
    """Return words and the numbers to predict from them; not all words are in a batch."""
    word = rng.integers(0, WORDS, size)
    return {"word": word, "number": rng.normal(size=(size, 1)).astype(np.float32)}


def trained(execution: str, dying: bool) -> dict[str, Any]:
    """Return the weights before and after some steps, and the texts of the ranges."""
    import keras
    import tensorflow as tf

    from tbd_models.tensorflow.trainer import TRAINER
    from tbd_models.tensorflow.workload import Workload, one_turn

    def workload(_dimensions: object) -> Workload:
        word = keras.Input((), dtype="int64")
        # Some initializers draw other values in each process.
        drawn = keras.initializers.RandomUniform(-1, 1, seed=int(os.environ["RANK"]))
        embedded = keras.layers.Embedding(WORDS, WIDTH, drawn, name="embedding")(word)
        model = keras.Model(word, keras.layers.Dense(1, name="dense")(embedded))
        return Workload(
            model=model,
            batch=samples,
            turns=one_turn(
                model,
                forward=lambda batch: model(batch["word"], training=True),
                loss=lambda output, batch: tf.reduce_mean(tf.square(output - batch["number"])),
                optimizer=keras.optimizers.SGD(RATE),
            ),
        )

    trainer = TRAINER(
        workload, None, Settings(SIZE, execution=execution, marked=True, scheme="serial")
    )

    def weights() -> list[Any]:
        return [weight.numpy().tolist() for weight in trainer.workload.model.weights]

    before = weights()
    trainer.mark_layers(texts := Texts())
    for step in range(STEPS):
        if dying and step == 1:
            os._exit(3)
        texts.texts.clear()
        trainer.step(texts)
    is_first = os.environ["RANK"] == "0"
    agreed = [trainer.agree(is_first), trainer.agree(not is_first)]
    trainer.close()
    return {"before": before, "after": weights(), "texts": texts.texts, "agreed": agreed}


if __name__ == "__main__":
    prepare(Settings(1))
    is_dying = sys.argv[1] == os.environ["RANK"]
    print(json.dumps({name: trained(name, is_dying) for name in ("graph", "eager", "xla")}))
