"""What ``tbd-trace fit`` and ``collect --memory`` ask of an unedited program."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

VARIABLE = "TBD_TRACE_MEMORY_REQUEST"
FROM_LOADER = "the DataLoader"
"""Source of the batch size in the report of a program that has a loader."""


@dataclass(frozen=True, slots=True)
class MemoryRequest:
    """How the memory of a program is found, and where it reports."""

    report: Path  # JSON file: batch size, layers, assumptions
    fake: bool = False  # True: shapes without data from the first training call on
    device: str = "cuda"  # whose kernels are assumed with `fake`; cuda or cpu
    batch_size: int | None = None  # in place of the program's; None leaves it
    checkpointed: tuple[str, ...] = ()  # layers that are computed again in the backward pass

    def variables(self) -> dict[str, str]:
        """Return the environment variable that hands the request to the program."""
        return {VARIABLE: json.dumps(asdict(self), default=str)}


def requested() -> MemoryRequest | None:
    """Return the request of the environment, None without one."""
    text = os.environ.get(VARIABLE)
    if not text:
        return None
    fields = json.loads(text)
    changed = {"report": Path(fields["report"]), "checkpointed": tuple(fields["checkpointed"])}
    return MemoryRequest(**(fields | changed))
