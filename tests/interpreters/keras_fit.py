"""``fit`` of a small Keras model with marks, as JSON: run in an interpreter that has TensorFlow."""

from __future__ import annotations

import json
import sys

import keras
import numpy as np
from keras import layers

from interpreters.tensorflow_cell import Recorder, nested
from tbd_models.instrument.training_tensorflow import TrainingMarks


def main() -> None:
    """Train for four batches."""
    keras.utils.set_random_seed(0)
    image = keras.Input((16, 16, 3))
    x = layers.Conv2D(4, 3, name="stem")(image)
    branches = [layers.Conv2D(4, 1, name=name)(x) for name in ("left", "right")]
    x = layers.Flatten(name="flat")(layers.Add(name="add")(branches))
    model = keras.Model(image, layers.Dense(3, name="scores")(x))
    recorder = Recorder()
    try:
        marks = TrainingMarks(model, recorder)
    except RuntimeError as error:
        json.dump({"error": str(error)}, sys.stdout)
        return
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    rng = np.random.default_rng(0)
    images, labels = rng.random((8, 16, 16, 3)), rng.integers(3, size=8)
    model.fit(images, labels, batch_size=4, epochs=2, callbacks=[marks], verbose=0)
    json.dump({"ranges": nested(recorder.events)}, sys.stdout)


if __name__ == "__main__":
    main()
