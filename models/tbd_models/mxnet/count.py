"""Count parameters and FLOP of an MXNet workload by a walk over its symbol."""

from __future__ import annotations

import json
from math import prod
from typing import Any

import mxnet as mx
import numpy as np

from tbd_models.definition import Counted

_GATES = {"lstm": 4, "gru": 3}


def count(build: Any, dimensions: Any) -> Counted:
    """Return the counts of one sample, from inferred shapes; the backward pass has no symbol."""
    work = build(dimensions)
    batch = work.batch(1, np.random.default_rng(0))
    shapes = {name: batch[name].shape for name in work.inputs}
    symbol = work.model(*(mx.sym.var(name) for name in work.inputs))
    internals = symbol.get_internals()
    graph = json.loads(internals.tojson())
    _, inferred, _ = internals.infer_shape(**shapes)
    sizes = {
        (node, output): size
        for (node, output, _), size in zip(graph["heads"], inferred, strict=True)
    }
    flop = parameters = 0
    trained = {p.name for p in work.model.collect_params().values() if p.grad_req != "null"}
    for number, node in enumerate(graph["nodes"]):
        given = [sizes[source, output] for source, output, _ in node["inputs"]]
        if node["name"] in trained:
            parameters += prod(sizes[number, 0])
        elif node["op"] in ("Convolution", "FullyConnected"):
            # Each output is a product over all values of a row of weights.
            flop += 2 * prod(sizes[number, 0]) * prod(given[1][1:])
        elif node["op"] == "batch_dot":
            summed = given[0][-2 if node.get("attrs", {}).get("transpose_a") == "True" else -1]
            flop += 2 * prod(sizes[number, 0]) * summed
        elif node["op"] == "RNN":
            flop += _recurrent(node["attrs"], given[0])
    return Counted(
        counter=f"walk over the symbol of MXNet {mx.__version__}",
        parameters=parameters,
        forward_flop=flop,
        training_flop=None,
        uncounted="training: the symbol has no backward pass",
    )


def _recurrent(attributes: dict[str, str], sequence: tuple[int, ...]) -> int:
    steps, samples, inputs = sequence
    hidden = int(attributes["state_size"])
    ways = 2 if attributes.get("bidirectional") == "True" else 1
    columns = 0
    for _ in range(int(attributes["num_layers"])):
        columns += inputs + hidden
        inputs = ways * hidden
    return 2 * steps * samples * ways * _GATES[attributes["mode"]] * hidden * columns
