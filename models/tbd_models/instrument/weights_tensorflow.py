"""Make the weights of a Keras model without drawing their values."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras
import tensorflow as tf


@contextmanager
def weights_of_zeros() -> Iterator[None]:
    """Let weights that are made in the block be zeros: for counting, shapes are enough."""
    # Orthogonal initial values of Deep Speech 2 take half a minute. Keras has no switch for it.
    name = "_initialize_with_initializer"
    drawn = getattr(keras.Variable, name)

    def initialize(variable: Any, _initializer: Any) -> None:
        variable._initialize(tf.zeros(variable.shape, variable.dtype))

    setattr(keras.Variable, name, initialize)
    try:
        yield
    finally:
        setattr(keras.Variable, name, drawn)
