"""Count parameters and FLOP of a TensorFlow workload with TensorFlow's profiler."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import tensorflow as tf

from tbd_models.definition import Counted
from tbd_models.instrument.weights_tensorflow import weights_of_zeros

_COUNTED = ["Conv2D.*", "DepthwiseConv2dNative.*", "MatMul", "BatchMatMul.*"]
_BACKWARD = "training: the profiler lacks formulas of the backward pass"
_SEVERAL = "FLOP: an iteration has several updates, each with gradients of gradients"


def count(build: Any, dimensions: Any) -> Counted:
    """Return the counts of one sample, from the graph of a forward pass."""
    with weights_of_zeros():
        work = build(dimensions)
        arrays = work.convert(work.batch(1, np.random.default_rng(0)))
        batch = {name: tf.constant(array) for name, array in arrays.items()}
        turn, several = work.turns[0], len(work.turns) > 1
        graph = tf.function(lambda: turn.forward(batch)).get_concrete_function().graph
    return Counted(
        counter=f"profiler of TensorFlow {tf.__version__}",
        parameters=sum(prod(weight.shape) for weight in work.model.trainable_weights),
        forward_flop=None if several else _flop(graph),
        training_flop=None,
        uncounted=_SEVERAL if several else _BACKWARD,
    )


def _flop(graph: Any) -> int:
    options = tf.compat.v1.profiler.ProfileOptionBuilder(
        tf.compat.v1.profiler.ProfileOptionBuilder.float_operation()
    )
    options.with_accounted_types(_COUNTED).with_empty_output()
    total: int = tf.compat.v1.profiler.profile(
        graph, cmd="op", options=options.build()
    ).total_float_ops
    # The profiler counts one iteration of a loop. Loops of recurrent layers fill a list with the
    # outputs of all iterations.
    for loop in graph.get_operations():
        if loop.type not in ("While", "StatelessWhile"):
            continue
        inside = _flop(graph._get_function(loop.get_attr("body").name).graph)
        if inside:
            (steps,) = {
                int(tf.get_static_value(given.op.inputs[1]))
                for given in loop.inputs
                if given.op.type == "TensorListReserve"
            }
            total += (steps - 1) * inside
    return total
