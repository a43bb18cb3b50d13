"""Compute sizes and floating-point operations of a Gluon model's layers from its shapes.

The model is called with symbols and MXNet infers all shapes: no memory, no weights, no execution.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from math import prod
from typing import Any

import mxnet as mx
from mxnet.gluon import Block, Parameter

from tbd_models.instrument.layer import Layer
from tbd_models.instrument.mxnet import layer_names

Shape = tuple[int, ...]
Entry = tuple[int, int]  # (node, output) in the graph

LAYER = "__layer__"
_BYTES = {"fp32": 4, "fp16": 2}
_GATES = {"lstm": 4, "gru": 3, "rnn_relu": 1, "rnn_tanh": 1}
# Operations that stop gradients.
_STOPS = ("BlockGrad", "zeros_like", "ones_like", "one_hot")


@dataclass(slots=True)
class _Graph:
    # Nodes and shapes as in MXNet's JSON, in execution order.
    nodes: list[dict[str, Any]]
    shapes: dict[Entry, Shape]
    # (block name, output), in the order in which the blocks end.
    block_outputs: list[tuple[str, Entry]] = field(default_factory=list)

    def inputs(self, node: dict[str, Any]) -> list[Entry]:
        return [(number, output) for number, output, _ in node["inputs"]]


def measure(model: Block, shapes: Mapping[str, Shape], precision: str = "fp32") -> list[Layer]:
    """Return the layers of a model in execution order, from named input shapes.

    A layer is a block that runs at least one operation outside its children; its sizes exclude
    theirs. Counted are convolutions, matrix products and recurrent layers (a multiply-add is 2),
    in the backward pass once for each operand that needs a gradient. ``precision`` is that of
    convolutions and matrix products.
    """
    graph = _trace(model, shapes)
    parameters = model.collect_params()
    trained = {name for name, p in parameters.items() if p.grad_req != "null"}
    sizes = {
        node["name"]: prod(graph.shapes[number, 0])
        for number, node in enumerate(graph.nodes)
        if node["op"] == "null"
    }
    layers = _unmeasured(model, trained, sizes)
    order = _count_flop(graph, layers, trained, precision)
    counted: set[Entry] = {(n, 0) for n, node in enumerate(graph.nodes) if node["op"] == "null"}
    # An output that a child has produced counts only for the child.
    for name, entry in graph.block_outputs:
        if entry not in counted:
            counted.add(entry)
            layers[name].feature_map_bytes += prod(graph.shapes[entry]) * _BYTES[precision]
    return [layers[name] for name in order]


def call_with_symbols(
    model: Block, shapes: Mapping[str, Shape]
) -> tuple[Any, list[tuple[str, Any]]]:
    """Return a model's output as symbols, and (block name, output) in the order of their ends.

    Operations have the name of their block in the attribute ``LAYER``.
    """
    outputs: list[tuple[str, Any]] = []
    with ExitStack() as hooks:
        for block, name in layer_names(model).items():
            _record(hooks, block, name, outputs)
        return model(*(mx.sym.var(name, shape=shape) for name, shape in shapes.items())), outputs


def _trace(model: Block, shapes: Mapping[str, Shape]) -> _Graph:
    output, outputs = call_with_symbols(model, shapes)
    everything = mx.sym.Group([*_symbols(output), *(symbol for _, symbol in outputs)])
    heads = json.loads(everything.tojson(remove_amp_cast=False))["heads"][-len(outputs) :]
    internals = everything.get_internals()
    graph = json.loads(internals.tojson(remove_amp_cast=False))
    _, inferred, _ = internals.infer_shape(**shapes)
    return _Graph(
        nodes=graph["nodes"],
        shapes=dict(zip(map(_entry, graph["heads"]), inferred, strict=True)),
        block_outputs=[
            (name, _entry(head)) for (name, _), head in zip(outputs, heads, strict=True)
        ],
    )


def _record(hooks: ExitStack, block: Block, name: str, recorded: list[tuple[str, Any]]) -> None:
    # Every operation of the block gets its name as an attribute; `recorded` gets its outputs.
    scopes: list[mx.AttrScope] = []

    def enter(_block: Block, _inputs: Any) -> None:
        scopes.append(mx.AttrScope(**{LAYER: name}))
        scopes[-1].__enter__()

    def leave(_block: Block, _inputs: Any, outputs: Any) -> None:
        scopes.pop().__exit__(None, None, None)
        recorded.extend((name, symbol) for symbol in _symbols(outputs))

    hooks.enter_context(block.register_forward_pre_hook(enter))
    hooks.enter_context(block.register_forward_hook(leave))


def _symbols(value: Any) -> Iterable[Any]:
    if isinstance(value, mx.sym.Symbol):
        yield from value
    else:
        for entry in value:
            yield from _symbols(entry)


def _entry(head: list[int]) -> Entry:
    return head[0], head[1]


def _unmeasured(model: Block, trained: set[str], sizes: Mapping[str, int]) -> dict[str, Layer]:
    # A parameter shared by several blocks counts for the first.
    layers = {}
    counted: set[str] = set()
    for block, name in layer_names(model).items():
        own: Iterable[Parameter] = block._reg_params.values()
        names = {p.name for p in own if p.name in trained} - counted
        counted |= names
        number = sum(sizes[name] for name in names)
        # MXNet keeps weights and gradients in float32 in mixed precision too.
        layers[name] = Layer(name, type(block).__name__, number, 4 * number, 4 * number)
    return layers


def _count_flop(
    graph: _Graph, layers: Mapping[str, Layer], trained: set[str], precision: str
) -> list[str]:
    # Returns layer names in execution order.
    order: dict[str, None] = {}
    needed: list[bool] = []  # whether a node's gradient is needed
    for number, node in enumerate(graph.nodes):
        inputs = graph.inputs(node)
        if node["op"] == "null":
            needed.append(node["name"] in trained)
            continue
        needed.append(node["op"] not in _STOPS and any(needed[source] for source, _ in inputs))
        if not inputs:
            continue  # a constant
        name = node["attrs"][LAYER]
        order.setdefault(name)
        formula = _FORMULAS.get(node["op"])
        if formula is None:
            continue
        operands = [graph.shapes[entry] for entry in inputs]
        flop = formula(node["attrs"], operands, graph.shapes[number, 0])
        # The fused recurrent layer always computes the gradients of both operands.
        wanted = 2 if node["op"] == "RNN" else sum(needed[source] for source, _ in inputs[:2])
        layer = layers[name]
        layer.forward_flop += flop
        layer.backward_flop += wanted * flop
        layer.precision = precision
    return list(order)


def _convolution(_attributes: Any, operands: list[Shape], output: Shape) -> int:
    return 2 * prod(output) * prod(operands[1][1:])


def _fully_connected(_attributes: Any, operands: list[Shape], output: Shape) -> int:
    return 2 * prod(output) * operands[1][1]


def _batch_dot(attributes: Any, operands: list[Shape], output: Shape) -> int:
    transposed = attributes.get("transpose_a") in ("True", "1")
    return 2 * prod(output) * operands[0][-2 if transposed else -1]


def _recurrent(attributes: Any, operands: list[Shape], _output: Shape) -> int:
    # Each weight is used once per step and sample; a multiply-add is 2.
    (steps, samples, _), (weights,) = operands[:2]
    gates = _GATES[attributes["mode"]] * int(attributes["state_size"])
    ways = 2 if attributes.get("bidirectional") in ("True", "1") else 1
    biases = 2 * gates * ways * int(attributes["num_layers"])
    return 2 * steps * samples * (weights - biases)


_FORMULAS: dict[str, Callable[[Any, list[Shape], Shape], int]] = {
    "Convolution": _convolution,
    "FullyConnected": _fully_connected,
    "batch_dot": _batch_dot,
    "RNN": _recurrent,
}
