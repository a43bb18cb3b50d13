"""Generated dumps of the Flight Recorder: four ranks, of which one stops."""

from __future__ import annotations

import json
from random import Random

from made_trace import MadeTrace

RANKS, GROUPS = 4, {"0": [0, 1, 2, 3], "5": [0, 1], "6": [2, 3]}
OPERATIONS = ["all_reduce", "_all_gather_base", "all_to_all", "broadcast"]
FORMAT = "flight-recorder-dump"


def dumps(seed: int) -> MadeTrace:
    """Return dumps; rank 3 has called fewer collectives, those of rank 2 have not all ended."""
    dice, made = Random(seed), MadeTrace()
    for rank in range(RANKS):
        trace = f"flight{rank}"
        known = {"world_size": 5, "written_ns": 10**9, "empty_ranks": [4]}
        made.add_trace(trace, name=f"hang/dump_{rank}", kind="summary", tool="flight-recorder",
            format=FORMAT, capture=json.dumps(known), utc_start_ns=0)  # fmt: skip
        made.add("job_rank", trace_id=trace, job="hang", rank=rank, world_size=5,
            backend="nccl", evidence="file name")  # fmt: skip
        for name, ranks in GROUPS.items():
            if rank in ranks:
                _add_group(made, dice, trace, rank, name)
    return made


def _add_group(made: MadeTrace, dice: Random, trace: str, rank: int, name: str) -> None:
    calls = 20 - 5 * (rank == 3)
    made.add("flight_group", trace_id=trace, local_group_id=int(name), group_name=name,
        group_description="default_pg" if name == "0" else None, ranks=str(GROUPS[name]),
        last_enqueued=calls, last_started=-1, last_completed=calls, evidence="entries")  # fmt: skip
    for number in range(1, calls + 1):
        shape = json.dumps([[8, number]])
        made.add("flight_record", trace_id=trace, record_id=made.next_id(),
            local_group_id=int(name), group_name=name,
            group_description="default_pg" if name == "0" else None, sequence=number,
            p2p_sequence=0, operation_id=number, is_point_to_point=dice.random() < 0.1,
            backend="nccl", operation=dice.choice(OPERATIONS), peer=dice.choice([0, 1]),
            input_shapes=shape, input_dtypes='["Float"]', output_shapes=shape,
            output_dtypes='["Float"]', state="scheduled",
            is_retired=rank != 2 or number < 17, created_ns=1000 * number + rank,
            timeout_ns=60 * 10**9, function="step", file="train.py",
            line=dice.choice([12, 14, None]))  # fmt: skip
