"""Fit a Keras model whose shapes are unknown until the first batch."""

import keras
import numpy as np

keras.utils.set_random_seed(0)
model = keras.Sequential(
    [keras.layers.Dense(16, activation="relu", name="hidden"), keras.layers.Dense(3, name="scores")]
)
model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
rng = np.random.default_rng(0)
inputs, labels = rng.random((40, 8)), rng.integers(3, size=40)
model.fit(inputs, labels, batch_size=8, epochs=1, verbose=0)
model.fit(inputs, labels, 8, 1, 0)
