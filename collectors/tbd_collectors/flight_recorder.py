"""Arm PyTorch's Flight Recorder in the ranks of a job, for the case that it hangs."""

from __future__ import annotations

import os
import time
from pathlib import Path

from tbd_models.instrument.flight_dump import AT_VARIABLE, DUMP_VARIABLE

_ENTRIES = "2000"  # PyTorch's own default from 2.5 on; before, the recorder is off
_BEFORE_S = 3.0  # from the dump to the end of the run: a dump of 2,000 entries takes 0.1 s
_SHORTEST = 0.8  # part of a short time limit after which to dump


def armed(directory: Path, rank: int, timeout_s: float) -> dict[str, str]:
    """Return the variables with which a rank dumps its collectives before the time limit.

    NCCL also dumps when an operation times out; gloo does not. Variables of the user are kept.

    Args:
        directory: where to write ``dump_RANK``.
        timeout_s: time limit of the run, which is about to start.
    """
    after = max(timeout_s - _BEFORE_S, _SHORTEST * timeout_s)
    variables = {
        **dict.fromkeys(("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"), _ENTRIES),
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        # PyTorch appends the rank.
        **dict.fromkeys(
            ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"), f"{directory}/dump_"
        ),
    }
    own = {DUMP_VARIABLE: f"{directory}/dump_{rank}", AT_VARIABLE: f"{time.time() + after:.3f}"}
    return {name: value for name, value in variables.items() if name not in os.environ} | own
