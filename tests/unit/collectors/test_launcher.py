"""Ranks of launchers: recognised by their variables, and waited for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tbd_collectors import launcher
from tbd_collectors.launcher import LauncherRank, rank_of

STEP = {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"}
BATCH_SCRIPT = {"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1"}, (3, 4)),
        (BATCH_SCRIPT | {"SLURM_PROCID": "5", "SLURM_STEP_NUM_TASKS": "8"}, (5, 8)),
        ({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"}, (0, 2)),
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, (1, 2)),
        ({"MV2_COMM_WORLD_RANK": "1", "MV2_COMM_WORLD_SIZE": "2"}, (1, 2)),
        # Below srun, torchrun numbers the ranks.
        (
            {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2", "RANK": "7", "WORLD_SIZE": "8"},
            (7, 8),
        ),
        (BATCH_SCRIPT, None),
        (BATCH_SCRIPT | {"SLURM_STEP_NUM_TASKS": "1"}, None),
        ({"RANK": "0", "WORLD_SIZE": "1"}, None),
        ({"RANK": "first", "WORLD_SIZE": "2"}, None),
        ({"RANK": "0"}, None),
        ({}, None),
    ],
)
def test_the_rank(
    environment: Mapping[str, str], expected: tuple[int, int] | None, tmp_path: Path
) -> None:
    found = rank_of(environment, tmp_path)
    assert (found and (found.rank, found.world_size)) == expected


def test_all_ranks_are_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(launcher.time, "monotonic", lambda: now[0])
    first, second = (LauncherRank(rank, 2, tmp_path) for rank in range(2))
    assert not first.all_are_recorded()
    assert second.all_are_recorded()
    assert first.all_are_recorded()
    third = LauncherRank(0, 3, tmp_path)
    assert not third.all_are_recorded()
    now[0] = 121
    assert third.all_are_recorded()
