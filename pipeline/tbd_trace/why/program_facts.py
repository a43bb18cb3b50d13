"""What the effects of changes read of a program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from tbd_trace.why.communication import Communication, communication
from tbd_trace.why.overlap import is_communication, is_compute, time_beside
from tbd_trace.why.program import Program
from tbd_trace.why.stalls import stalls

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Gpu:
    """Rates of a GPU: SMs * clock in Hz, and memory bandwidth in byte/s."""

    compute: float
    bandwidth: float


class ProgramFacts:
    """A program, its stalls, its communication and its GPU.

    Args:
        gpus: returns the rates of the program's GPU, and of the one of a name.
    """

    def __init__(
        self, program: Program, gpus: Callable[[str], tuple[Gpu, Gpu]] | None = None
    ) -> None:
        self.program = program
        self.stalls = stalls(program)
        self._gpus = gpus

    @cached_property
    def under_communication_ns(self) -> NDArray[np.int64]:
        """Time of each operation in which its device also communicates."""
        program = self.program
        return time_beside(program.ops, program.device_id, is_compute, is_communication)

    @cached_property
    def communication(self) -> Communication | None:
        """Communication of a mean step."""
        return communication(self.program)

    def gpus(self, name: str) -> tuple[Gpu, Gpu]:
        assert self._gpus is not None
        return self._gpus(name)
