"""Find the layer of each operation of a traced Keras model."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

import keras
import tensorflow as tf

from tbd_models.instrument.tensorflow import layer_names

_BACKWARD = "gradient_tape/"


class Scopes:
    """Record, as a context, which layer adds which operations to ``graph``.

    Calls of layers are wrapped, without effect on the graph. A gradient's name contains that of its
    forward operation.
    """

    def __init__(self, model: keras.Model) -> None:
        self.graph: Any = None
        self._names = layer_names(model)
        self._calls: dict[keras.layers.Layer, Callable[..., Any]] = {}
        self._running: list[str] = []
        self._changes: list[tuple[int, str | None]] = []
        self._by_scope: dict[str, str | None] = {}

    def __enter__(self) -> None:
        for layer, name in self._names.items():
            self._calls[layer] = layer.call
            layer.call = self._noted(name, layer.call)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for layer, call in self._calls.items():
            layer.call = call
        self._assign()

    def layer(self, operation: Any) -> str | None:
        """Return the innermost layer of an operation, None outside of layers."""
        scope = operation.name.rpartition(_BACKWARD)[2]
        while scope and scope not in self._by_scope:
            scope = scope.rpartition("/")[0]
        return self._by_scope.get(scope)

    def _noted(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            # Bodies of loops are other graphs; the loop belongs to the layer.
            if tf.compat.v1.get_default_graph() is not self.graph:
                return call(*args, **kwargs)
            self._running.append(name)
            self._note()
            try:
                return call(*args, **kwargs)
            finally:
                self._running.pop()
                self._note()

        return run

    def _note(self) -> None:
        count = len(self.graph.get_operations())
        self._changes.append((count, self._running[-1] if self._running else None))

    def _assign(self) -> None:
        if self.graph is None:
            return
        operations = self.graph.get_operations()
        ends = [count for count, _ in self._changes[1:]] + [len(operations)]
        for (first, name), last in zip(self._changes, ends, strict=True):
            for operation in operations[first : last if name is not None else first]:
                self._by_scope[operation.name] = name
                self._by_scope.setdefault(operation.name.rpartition("/")[0], name)
