"""Parse the buffer assignment that XLA dumps: allocations, and the values that share them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tbd_trace.errors import InputError

_MAGIC = b"BufferAssignment:"
_ALLOCATION = re.compile(r"allocation (\d+): (?:0x[0-9a-f]+, )?size (\d+)(.*):")
_VALUE = re.compile(r"\s+value: <(\d+) (.+?)(?: @\d+)?> \(size=(\d+),offset=(\d+)\): (.+)")
_TOTAL = re.compile(r"Total bytes used: (\d+)\b.*")
_USED_VALUE = re.compile(r"<(\d+) .+>")
_INSTRUCTION = re.compile(r"from instruction: %?(\S+) = (.+)")
_OPCODE = re.compile(r"[\]})] ([a-z][\w-]*)\(")
_OPERATION_NAME = re.compile(r'\bop_name="([^"]*)"')


class PlacedValue(NamedTuple):
    """A value in an allocation."""

    id: int
    name: str
    bytes: int
    offset: int
    shape: str


@dataclass(slots=True)
class Allocation:
    """One buffer of the program."""

    number: int
    bytes: int
    kind: str  # parameter, donated, output, constant, thread_local or temporary
    values: list[PlacedValue] = field(default_factory=list)


@dataclass(slots=True)
class Instruction:
    """Origin and readers of a value."""

    name: str
    opcode: str
    operation: str  # name in the framework, empty for instructions that XLA inserts
    readers: list[str]  # instructions


@dataclass(slots=True)
class Plan:
    """The memory of one compiled program."""

    computation: str
    total_bytes: int
    allocations: list[Allocation]
    instructions: dict[int, Instruction]  # by id of the value


def is_buffer_assignment(head: bytes) -> bool:
    """Return True if a file begins like a buffer assignment."""
    return head.startswith(_MAGIC)


def read_plan(path: Path) -> Plan:
    """Parse a buffer assignment.

    Raises:
        InputError: the file is damaged.
    """
    data = path.read_bytes()
    if not is_buffer_assignment(data):
        raise InputError(f"{path}: not a buffer assignment of XLA; check the file")
    lines = iter(data.decode("utf-8", "replace").splitlines()[1:])
    allocations: list[Allocation] = []
    total = _read_allocations(lines, allocations)
    if total != sum(allocation.bytes for allocation in allocations):
        # The total is the line behind the allocations.
        raise InputError(f"{path}: allocations are missing; copy or dump the file again")
    instructions = dict(_instructions(lines))
    placed = {value.id for allocation in allocations for value in allocation.values}
    if instructions and not placed <= instructions.keys():
        raise InputError(f"{path}: values are missing; copy or dump the file again")
    return Plan(_computation(path), total, allocations, instructions)


def _computation(path: Path) -> str:
    name = path.name.removesuffix(".txt").removesuffix("-buffer-assignment")
    return re.sub(r"\.\w+_after_optimizations$", "", name)


def _read_allocations(lines: Iterator[str], allocations: list[Allocation]) -> int:
    for line in lines:
        if match := _VALUE.fullmatch(line):
            if not allocations:
                return -1
            allocations[-1].values.append(
                PlacedValue(int(match[1]), match[2], int(match[3]), int(match[4]), match[5])
            )
        elif match := _ALLOCATION.fullmatch(line):
            allocations.append(Allocation(int(match[1]), int(match[2]), _kind(match[3])))
        elif match := _TOTAL.fullmatch(line):
            return int(match[1])
        elif line.strip():
            return -1
    return -1


def _kind(attributes: str) -> str:
    live_out = "maybe-live-out" in attributes
    if ", parameter " in attributes:
        return "donated" if live_out else "parameter"
    if ", constant" in attributes:
        return "constant"
    if ", thread-local" in attributes:
        return "thread_local"
    return "output" if live_out or ", output" in attributes else "temporary"


def _instructions(lines: Iterator[str]) -> Iterator[tuple[int, Instruction]]:
    value, readers, in_uses = -1, list[str](), False
    for line in lines:
        text = line.strip()
        if match := _USED_VALUE.fullmatch(line):
            value, readers, in_uses = int(match[1]), [], False
        elif match := _INSTRUCTION.match(text):
            opcode = _OPCODE.search(match[2])
            operation = _OPERATION_NAME.search(match[2])
            yield (
                value,
                Instruction(
                    match[1],
                    opcode[1] if opcode else "",
                    operation[1] if operation else "",
                    readers,
                ),
            )
        elif text == "uses:":
            in_uses = True
        elif in_uses and ", operand " in text:
            readers.append(text.split(",", 1)[0])
