"""Recognise the launcher of which this process is one rank: torchrun, Slurm, MPI and others."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

from tbd_collectors.rank_launch import Launch
from tbd_models.instrument.marks import EVERY_RANK_VARIABLE

# Variables of rank and number of ranks. torchrun, accelerate and deepspeed set the first two.
_VARIABLES = (
    ("RANK", "WORLD_SIZE"),
    # The script of sbatch has SLURM_PROCID 0 and SLURM_NTASKS, too, but SLURM_STEP_NUM_TASKS is 1.
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),  # Open MPI
    ("PMI_RANK", "PMI_SIZE"),  # MPICH, Intel MPI
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),  # MVAPICH
)
_WAIT_S = 120.0  # for ranks that are slower


@dataclass(frozen=True, slots=True)
class LauncherRank:
    """This process as one rank of a launcher; `rank_launch.Launch` starts ranks itself."""

    rank: int
    world_size: int
    directory: Path  # of the job, which all ranks share
    prefix: Sequence[str] = ()
    stop: Event = field(default_factory=Event)
    began: list[float] = field(default_factory=list)  # when this rank began to wait for others

    def environment(self, _run: int) -> dict[str, str]:
        """Return the variables to add; the launcher has set all others."""
        return {EVERY_RANK_VARIABLE: "1"}

    def all_are_recorded(self) -> bool:
        """Note that enough of this rank is recorded; return True if that is so of all ranks.

        Ranks that do not train are waited for two minutes.
        """
        self.noted(self.rank).touch()
        if not self.began:
            self.began.append(time.monotonic())
        is_late = time.monotonic() - self.began[0] > _WAIT_S
        return is_late or all(self.noted(rank).exists() for rank in range(self.world_size))

    def noted(self, rank: int) -> Path:
        """Return the file that says that enough of a rank is recorded."""
        return self.directory / f".recorded.{rank}"


RankStart = Launch | LauncherRank
"""How one rank of a job is started: by ``collect --ranks``, or by a launcher."""


def rank_of(environment: Mapping[str, str], directory: Path) -> LauncherRank | None:
    """Return the rank that the variables name, None if there is none or no other rank.

    Args:
        environment: variables of this process.
        directory: directory of the job.
    """
    for rank, world_size in _VARIABLES:
        number, count = environment.get(rank, ""), environment.get(world_size, "")
        if number.isdigit() and count.isdigit():
            is_one_of_several = int(count) > 1
            return LauncherRank(int(number), int(count), directory) if is_one_of_several else None
    return None
