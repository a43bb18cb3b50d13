"""Read the operations of a training step, and what gradients read, from an MXNet symbol."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import mxnet as mx
import numpy as np

from tbd_models.instrument.layers_mxnet import LAYER

Shape: TypeAlias = tuple[int, ...]
Entry: TypeAlias = tuple[int, int]  # (node, output)
Output: TypeAlias = tuple[Shape, str, int]  # shape, data type, bytes of an element

_OPERATION = re.compile(r"^Op:\S+, Name=(.*)$")
_READ = re.compile(r"^\targ\[\d+\]=op(\d+)\((\d+)\)")
_BACKWARD = re.compile(r"op(\d+)_backward")


@dataclass(slots=True)
class Node:
    """A forward operation."""

    number: int  # in the symbol's JSON
    operator: str
    layer: str | None
    inputs: list[Entry]
    outputs: list[Output]


@dataclass(slots=True)
class BackwardStep:
    """A backward operation: the forward operation it belongs to, and forward outputs it reads."""

    node: int
    reads: list[Entry]


class Graph:
    """Forward and backward operations of a scalar symbol, in execution order."""

    def __init__(self, symbol: Any, shapes: Mapping[str, Shape], trained: set[str]) -> None:
        # Blocks that are called twice make equal names, by which MXNet prints the graph.
        document = json.loads(symbol.tojson(remove_amp_cast=False))
        for number, node in enumerate(document["nodes"]):
            if node["op"] != "null":
                node["name"] = f"op{number}"
        self._symbol = mx.sym.load_json(json.dumps(document))
        self._types = dict.fromkeys(self._symbol.list_inputs(), "float32")
        self.nodes = list(self._forward(document["nodes"], shapes))
        self.backward = list(self._printed(shapes, trained))

    def _forward(self, nodes: list[dict[str, Any]], shapes: Mapping[str, Shape]) -> Iterator[Node]:
        internals = self._symbol.get_internals()
        heads = json.loads(internals.tojson(remove_amp_cast=False))["heads"]
        inferred = internals.infer_shape(**shapes)[1]
        types = internals.infer_type(**self._types)[1]
        outputs: dict[Entry, Output] = {}
        for (number, output, _), shape, kind in zip(heads, inferred, types, strict=True):
            outputs[number, output] = (shape, np.dtype(kind).name, np.dtype(kind).itemsize)
        for number, node in enumerate(nodes):
            if node["op"] == "null":
                continue
            inputs = [(source, output) for source, output, _ in node["inputs"]]
            visible = [out for (each, _), out in outputs.items() if each == number]
            visible += _hidden(node, [outputs[entry] for entry in inputs], visible)
            layer = node.get("attrs", {}).get(LAYER)
            yield Node(number, node["op"], layer, inputs, visible)

    def _printed(self, shapes: Mapping[str, Shape], trained: set[str]) -> Iterator[BackwardStep]:
        # Python has no other access to the gradient graph than the text of a bound executor.
        requests = {
            name: "write" if name in trained else "null" for name in self._symbol.list_arguments()
        }
        bound = self._symbol.simple_bind(
            mx.cpu(), grad_req=requests, type_dict=self._types, **shapes
        )
        step = None
        for line in bound.debug_str().splitlines():
            if operation := _OPERATION.match(line):
                if step is not None:
                    yield step
                backward = _BACKWARD.match(operation[1])
                step = BackwardStep(int(backward[1]), []) if backward else None
            elif step is not None and (read := _READ.match(line)):
                step.reads.append((int(read[1]), int(read[2])))
        if step is not None:
            yield step


def _hidden(node: dict[str, Any], inputs: list[Output], visible: list[Output]) -> list[Output]:
    # Outputs that symbols do not show, as an operation keeps them for its own gradient.
    operator, attributes = node["op"], node.get("attrs", {})
    if operator == "BatchNorm":
        return [inputs[1]] * 2  # mean and variance of each channel
    if operator == "LayerNorm":
        shape, dtype, size = inputs[0]
        axis = int(attributes.get("axis", -1)) % len(shape)
        return [
            ((*shape[:axis], 1, *shape[axis + 1 :]), dtype, size)
        ] * 2  # mean and standard deviation
    if operator == "Dropout" and float(attributes.get("p", 0.5)) > 0:
        return visible[:1]  # mask
    if operator == "Pooling" and attributes.get("pool_type", "max") == "max":
        return visible[:1]  # positions of the maxima
    if operator in ("CTCLoss", "ctc_loss", "_contrib_ctc_loss"):
        return inputs[:1]  # gradient of the scores
    return []
