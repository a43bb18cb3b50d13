"""Estimate the memory of a Gluon model's training from shapes and MXNet's graph of gradients.

The sizes are those of the second iteration and later: states of the optimizer exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import mxnet as mx
import numpy as np
from mxnet import autograd
from mxnet.gluon import HybridBlock, Parameter

from tbd_models.instrument.layers_mxnet import call_with_symbols
from tbd_models.instrument.memory_graph_mxnet import Entry, Graph, Node
from tbd_models.instrument.memory_schedule import Buffer, Recording
from tbd_models.instrument.mxnet import layer_names

Batch: TypeAlias = dict[str, Any]

_ASSUMPTIONS = [
    "operations run one by one, as on the naive engine",
    "memory inside operators, as of recurrent layers on oneDNN, is left out",
]


@dataclass(frozen=True, slots=True)
class Training:
    """An initialized model and how to train it."""

    model: HybridBlock
    inputs: Sequence[str]  # fields of the batch that the model takes
    loss: Callable[[Any, Batch], Any]  # from the model's only output and the batch to a scalar
    optimizer: mx.optimizer.Optimizer


def estimate(
    training: Training, batch: Batch, batch_size: int, device_type: str = "cpu"
) -> Recording:
    """Return the memory of a training whose iterations take batches like ``batch``."""
    symbol, shapes = _whole(training, batch)
    parameters = training.model.collect_params().values()
    trained = {p.name for p in parameters if p.grad_req != "null"}
    recording = Recording("mxnet", "mxnet", device_type, batch_size, list(_ASSUMPTIONS))
    recording.permanent = list(_parameters(training))
    recording.schedules = [_Step(Graph(symbol, shapes, trained), batch).buffers()]
    return recording


def _whole(training: Training, batch: Batch) -> tuple[Any, dict[str, tuple[int, ...]]]:
    # Returns model and loss as one symbol, and the shapes of its inputs. Losses are functions of
    # arrays, so the loss is recorded on an array like the model's output.
    shapes = {name: batch[name].shape for name in training.inputs}
    output, _ = call_with_symbols(training.model, shapes)
    _, (shape,), _ = output.infer_shape()
    scores = mx.nd.zeros(shape)
    scores.attach_grad()
    with autograd.record():
        value = training.loss(scores, batch)
    # MXNet cannot infer the type of _copyto, which is what astype() records.
    text = autograd.get_symbol(value).tojson(remove_amp_cast=False)
    symbol = mx.sym.load_json(text.replace('"op": "_copyto"', '"op": "_copy"'))
    for array in batch.values():
        try:
            shapes[autograd.get_symbol(array).name] = array.shape
        except mx.MXNetError:
            continue  # the loss does not read it
    return symbol(**{autograd.get_symbol(scores).name: output}), shapes


def _parameters(training: Training) -> Iterator[Buffer]:
    owners: dict[str, str] = {}
    for block, name in layer_names(training.model).items():
        for parameter in block._reg_params.values():
            owners.setdefault(parameter.name, name)
    for number, parameter in enumerate(training.model.collect_params().values()):
        for kind, array in _arrays(number, parameter, training.optimizer):
            buffer = Buffer(kind, array.shape, *_type(array), "setup")
            buffer.layer, buffer.operator = owners.get(parameter.name), parameter.name
            yield buffer


def _arrays(
    number: int, parameter: Parameter, optimizer: mx.optimizer.Optimizer
) -> Iterator[tuple[str, Any]]:
    data = parameter.data()
    if parameter.grad_req == "null":
        yield "buffer", data
        return
    yield "weight", data
    # Gluon keeps the gradients of all parameters from the initialization on.
    yield "weight_gradient", parameter.grad()
    state = optimizer.create_state_multi_precision(number, data)
    yield from (("optimizer_state", array) for array in _flat(state))


def _flat(state: Any) -> Iterator[Any]:
    if isinstance(state, mx.nd.NDArray):
        yield state
    elif state is not None:
        for each in state:
            yield from _flat(each)


def _type(array: Any) -> tuple[str, int]:
    dtype = np.dtype(array.dtype)
    return dtype.name, dtype.itemsize


class _Step:
    # The buffers of a step: inputs, outputs of operations, and gradients of those.

    def __init__(self, graph: Graph, batch: Batch) -> None:
        self._graph = graph
        self._batch = batch
        self._forward = len(graph.nodes)
        # Positions of each operation's backward operations, behind all forward operations.
        self._backward: dict[int, list[int]] = {}
        for position, step in enumerate(graph.backward):
            self._backward.setdefault(step.node, []).append(self._forward + position)

    def buffers(self) -> list[Buffer]:
        return [*self._inputs(), *self._outputs(), *self._gradients()]

    def _inputs(self) -> Iterator[Buffer]:
        end = self._forward + len(self._graph.backward)
        for name, array in self._batch.items():
            buffer = Buffer("input", array.shape, *_type(array), "other", -1, end)
            buffer.operator = name
            yield buffer

    def _outputs(self) -> Iterator[Buffer]:
        buffers: dict[Entry, Buffer] = {}
        for position, node in enumerate(self._graph.nodes):
            for entry in node.inputs:
                if entry in buffers:
                    buffers[entry].last = position
            for number, (shape, dtype, size) in enumerate(node.outputs):
                buffer = Buffer("temporary", shape, dtype, size, "forward", position, position)
                buffer.layer, buffer.operator = node.layer, node.operator
                buffers[node.number, number] = buffer
        for position, step in enumerate(self._graph.backward, self._forward):
            for entry in step.reads:
                buffers[entry].kind, buffers[entry].last = "feature_map", position
        return iter(buffers.values())

    def _gradients(self) -> Iterator[Buffer]:
        # Each reader of a tensor makes a gradient for it; more than one are added up before the
        # operation that made the tensor runs backward. Gradients of weights are permanent.
        by_number = {node.number: node for node in self._graph.nodes}
        counts: dict[Entry, int] = {}
        for reader in self._graph.nodes:
            for entry in set(reader.inputs) if reader.number in self._backward else ():
                if entry[0] in self._backward:
                    counts[entry] = counts.get(entry, 0) + 1
                    yield self._gradient(by_number[entry[0]], entry, reader)
        for entry, count in counts.items():
            if count > 1:
                node = by_number[entry[0]]
                yield self._gradient(node, entry, node)

    def _gradient(self, node: Node, entry: Entry, maker: Node) -> Buffer:
        shape, dtype, size = node.outputs[entry[1]]
        positions = self._backward[entry[0]]
        made = self._backward[maker.number][-1] if maker is not node else positions[0]
        buffer = Buffer("activation_gradient", shape, dtype, size, "backward", made, positions[-1])
        buffer.layer, buffer.operator = maker.layer, f"_backward_{maker.operator}"
        return buffer
