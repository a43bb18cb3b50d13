"""Classify the values of a buffer assignment."""

from __future__ import annotations

import re
from enum import IntEnum
from pathlib import Path
from typing import Any

from tbd_trace.sources.xla_memory.buffer_assignment import (
    Allocation,
    Instruction,
    PlacedValue,
    Plan,
    read_plan,
)

_BACKWARD = re.compile(r"gradient_tape/|transpose\(jvp\(|(?:^|/)gradients/")
_OPTIMIZER = re.compile(
    r"(?i)(?:^|/)(?:sgd|adam\w*|nadam|rmsprop|adagrad|adadelta|ftrl|lamb|lion|optimizer)(?:_\d+)?/"
)
_SCALAR_INTEGER = re.compile(r"[su]\d+\[\]")
_DIMENSIONS = re.compile(r"\w+\[[\d,]*\]")
_TUPLE = "tuple"


class _Phase(IntEnum):
    NONE = -1  # parameters, constants and copies of them
    FORWARD = 0
    BACKWARD = 1
    OPTIMIZER = 2


def memory_plan(path: Path) -> list[dict[str, Any]]:
    """Return rows of ``memory_plan``: one per value, or per allocation without values.

    ``bytes`` is the size of the allocation and repeats for each value in it.

    Raises:
        InputError: the file is damaged.
    """
    plan = read_plan(path)
    classes = _Classes(plan)
    return [
        {
            "computation": plan.computation,
            "allocation": allocation.number,
            "bytes": allocation.bytes,
            "offset_bytes": value.offset if value else None,
            "value_name": value.name if value else None,
            "value_bytes": value.bytes if value else None,
            "shape": value.shape if value else None,
            "kind": allocation.kind,
            "class": classes.of(allocation, value) if value else "unknown",
        }
        for allocation in plan.allocations
        for value in (*allocation.values, *([] if allocation.values else [None]))
    ]


class _Classes:
    def __init__(self, plan: Plan) -> None:
        self.instructions = plan.instructions
        self.by_name: dict[str, list[int]] = {}
        for number, instruction in plan.instructions.items():
            self.by_name.setdefault(instruction.name, []).append(number)
        self.operands: dict[int, int] = dict.fromkeys(plan.instructions, 0)
        for instruction in plan.instructions.values():
            for reader in set(instruction.readers):
                for number in self.by_name.get(reader, ()):
                    self.operands[number] += 1
        self.phases = self._phases()
        self.trains = _Phase.BACKWARD in self.phases.values()
        self.updates = {
            value.id: parameter
            for allocation in plan.allocations
            for value in allocation.values
            if (parameter := self._updated_parameter(allocation, value))
        }

    def of(self, allocation: Allocation, value: PlacedValue) -> str:
        opcode = self._opcode(value.id)
        if allocation.kind == "thread_local" or opcode == _TUPLE:
            return "workspace"  # scalars of nested computations, tables of pointers
        if opcode in ("", "constant"):
            return "unknown"
        parameter = value if opcode == "parameter" else self.updates.get(value.id)
        if parameter:
            return self._parameter(allocation, parameter)
        # XLA inserts copies for other layouts.
        return "workspace" if self._is_copy(value.id) else self._computed(allocation, value)

    def _computed(self, allocation: Allocation, value: PlacedValue) -> str:
        phase, readers = self.phases[value.id], self._readers(value.id)
        last = max((self.phases[reader] for reader in readers), default=_Phase.NONE)
        if phase == _Phase.OPTIMIZER:
            return "optimizer_temporary"
        if phase == _Phase.BACKWARD:
            is_gradient = last == _Phase.OPTIMIZER or not readers.isdisjoint(self.updates)
            return "weight_gradient" if is_gradient else "activation_gradient"
        if last >= _Phase.BACKWARD:
            return "feature_map"
        return "unknown" if allocation.kind == "output" else "temporary"

    def _parameter(self, allocation: Allocation, parameter: PlacedValue) -> str:
        if not self.trains:
            # Inputs and weights of an inference are alike.
            return "unknown"
        phases = {self.phases[reader] for reader in self._readers(parameter.id)}
        if allocation.kind != "donated":
            return "optimizer_state" if phases == {_Phase.OPTIMIZER} else "input"
        if _SCALAR_INTEGER.fullmatch(parameter.shape):
            return "optimizer_state"  # number of the step
        if _Phase.FORWARD not in phases:
            return "optimizer_state"
        written = [
            self.phases[value.id]
            for value in allocation.values
            if self.updates.get(value.id) == parameter
        ]
        # Running statistics are written by the forward pass.
        return "weight" if max(written, default=_Phase.NONE) >= _Phase.BACKWARD else "buffer"

    def _updated_parameter(self, allocation: Allocation, value: PlacedValue) -> PlacedValue | None:
        # The new content of a donated parameter is a result of the program, in the same place.
        instruction = self.instructions.get(value.id)
        if allocation.kind != "donated" or instruction is None:
            return None
        results = [
            number
            for reader in instruction.readers
            for number in self.by_name.get(reader, ())
            if self.instructions[number].opcode == _TUPLE
        ]
        if not results or instruction.opcode == "parameter":
            return None
        same = (
            other
            for other in allocation.values
            if self._opcode(other.id) == "parameter"
            and _dimensions(other.shape) == _dimensions(value.shape)
            and other.offset == value.offset
        )
        return next(same, None)

    def _opcode(self, number: int) -> str:
        instruction = self.instructions.get(number)
        return instruction.opcode if instruction else ""

    def _phases(self) -> dict[int, _Phase]:
        phases = {number: _named(instruction) for number, instruction in self.instructions.items()}
        waiting = list(phases)
        # Operations that read a gradient belong to the backward pass, whatever their names.
        while waiting:
            number = waiting.pop()
            for reader in self.instructions[number].readers:
                for following in self.by_name.get(reader, ()):
                    if phases[following] < phases[number]:
                        phases[following] = phases[number]
                        waiting.append(following)
        return phases

    def _is_copy(self, number: int) -> bool:
        instruction = self.instructions[number]
        return not instruction.operation and self.operands[number] == 1

    def _readers(self, number: int) -> set[int]:
        # Values that read this one, directly or from a copy.
        readers: set[int] = set()
        waiting = [number]
        while waiting:
            for reader in self.instructions[waiting.pop()].readers:
                for following in self.by_name.get(reader, ()):
                    if following in readers or self._opcode(following) == _TUPLE:
                        continue
                    readers.add(following)
                    if self._is_copy(following):
                        waiting.append(following)
        return {reader for reader in readers if not self._is_copy(reader)}


def _named(instruction: Instruction) -> _Phase:
    if instruction.opcode in ("parameter", "constant") or not instruction.operation:
        return _Phase.NONE
    if _OPTIMIZER.search(instruction.operation):
        return _Phase.OPTIMIZER
    return _Phase.BACKWARD if _BACKWARD.search(instruction.operation) else _Phase.FORWARD


def _dimensions(shape: str) -> str:
    # Without the layout: f32[3,3]{1,0}.
    match = _DIMENSIONS.match(shape)
    return match[0] if match else shape
