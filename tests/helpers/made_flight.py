"""Made Flight Recorder dumps: programs of ranks are played until no rank can go on."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tbd_trace.analysis.hang.job import Call, Job, Member, Place, Rank

START_NS = 1_700_000_000_000_000_000
STEP_NS = 1_000_000
FILE = "/home/user/train.py"


@dataclass(frozen=True)
class Made:
    """A call of a program."""

    group: str
    line: int
    operation: str = "all_reduce"
    shape: tuple[int, ...] = (8,)
    dtype: str = "Float"


def played(
    programs: Mapping[int, Sequence[Made]], groups: Mapping[str, Sequence[int]]
) -> dict[int, list[dict[str, Any]]]:
    """Return the entries of each rank when all are blocked or at the end of their program.

    A collective ends when all ranks of its group have called it alike.
    """
    entries: dict[int, list[dict[str, Any]]] = {rank: [] for rank in programs}
    counts: dict[tuple[int, str], int] = {}
    time = START_NS
    while True:
        for rank, program in programs.items():
            own = entries[rank]
            if len(own) < len(program) and (not own or own[-1]["retired"]):
                made = program[len(own)]
                counts[rank, made.group] = counts.get((rank, made.group), 0) + 1
                time += STEP_NS
                own.append(_entry(made, counts[rank, made.group], len(own), time))
        if not _finish(entries, groups):
            return entries


def _finish(
    entries: Mapping[int, list[dict[str, Any]]], groups: Mapping[str, Sequence[int]]
) -> bool:
    finished = False
    for name, ranks in groups.items():
        calls = [entries[rank][-1] for rank in ranks if entries.get(rank)]
        keys = {
            json.dumps([e["process_group"], e["collective_seq_id"], e["profiling_name"],
                        e["input_sizes"], e["input_dtypes"], e["retired"]])
            for e in calls
        }  # fmt: skip
        here = len(calls) == len(ranks) and calls[0]["process_group"][0] == name
        if here and len(keys) == 1 and not calls[0]["retired"]:
            finished = True
            for call in calls:
                call["retired"] = True
    return finished


def _entry(made: Made, sequence: int, number: int, time_ns: int) -> dict[str, Any]:
    description = "default_pg" if made.group == "0" else "undefined"
    return {
        "record_id": number,
        "pg_id": int(made.group),
        "process_group": (made.group, description),
        "collective_seq_id": sequence,
        "p2p_seq_id": 0,
        "op_id": sequence,
        "profiling_name": f"nccl:{made.operation}",
        "time_created_ns": time_ns,
        "input_sizes": [list(made.shape)],
        "input_dtypes": [made.dtype],
        "output_sizes": [list(made.shape)],
        "output_dtypes": [made.dtype],
        "state": "scheduled",
        "is_p2p": False,
        "retired": False,
        "timeout_ms": 600_000,
        "frames": [
            {"name": "all_reduce", "filename": "/x/torch/distributed/c10d.py", "line": 9},
            {"name": "step", "filename": FILE, "line": made.line},
        ],
    }


def document(
    entries: Sequence[Mapping[str, Any]], groups: Mapping[str, Sequence[int]], rank: int
) -> dict[str, Any]:
    """Return the dump of a rank, as NCCL writes it."""
    own = {name: ranks for name, ranks in groups.items() if rank in ranks}
    last = {
        name: max((e["collective_seq_id"] for e in entries if e["process_group"][0] == name),
                  default=0)
        for name in own
    }  # fmt: skip
    return {
        "version": "2.10",
        "comm_lib_version": "2.27.3",
        "pg_config": {
            name: {
                "name": name,
                "desc": "default_pg" if name == "0" else "",
                "ranks": str([*ranks]),
            }
            for name, ranks in own.items()
        },
        "pg_status": {
            name: {
                "last_enqueued_collective": last[name],
                "last_started_collective": -1,
                "last_completed_collective": last[name],
            }
            for name in own
        },
        "entries": list(entries),
    }


def write_dumps(
    folder: Path,
    entries: Mapping[int, Sequence[Mapping[str, Any]]],
    groups: Mapping[str, Sequence[int]],
    form: str = "pickle",
) -> Path:
    """Write a dump per rank into a folder, as pickles of protocol 2 or as JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank, own in entries.items():
        made = document(own, groups, rank)
        if form == "pickle":
            (folder / f"dump_{rank}").write_bytes(pickle.dumps(made, protocol=2))
        else:
            made["entries"] = [
                {key: value for key, value in entry.items() if key != "frames"} for entry in own
            ]
            (folder / f"dump_{rank}.json").write_text(json.dumps(made))
    return folder


def job_of(
    entries: Mapping[int, Sequence[Mapping[str, Any]]],
    groups: Mapping[str, Sequence[int]],
    **dumps: str,
) -> Job:
    """Return the job of some entries; ``rank_3="missing"`` states the dump of a rank."""
    state = {int(name.removeprefix("rank_")): dump for name, dump in dumps.items()}
    known = {rank: own for rank, own in entries.items() if rank not in state}
    members = {
        name: {rank: _member(known.get(rank), name) for rank in ranks}
        for name, ranks in groups.items()
    }
    return Job(
        "made",
        {rank: Rank(state.get(rank, "records" if entries[rank] else "no records"))
         for rank in entries},
        tuple(_call(rank, entry) for rank, own in known.items() for entry in own),
        members,
        len(entries),
        {"0": "default_pg"},
    )  # fmt: skip


def _member(entries: Sequence[Mapping[str, Any]] | None, group: str) -> Member:
    if not entries:
        return Member(None, None)
    own = [entry for entry in entries if entry["process_group"][0] == group]
    entered = max((entry["collective_seq_id"] for entry in own), default=0)
    still = [entry["collective_seq_id"] for entry in own if not entry["retired"]]
    return Member(entered, min(still) - 1 if still else entered)


def _call(rank: int, entry: Mapping[str, Any]) -> Call:
    operation = entry["profiling_name"].removeprefix("nccl:")
    shapes, dtypes = json.dumps(entry["input_sizes"]), json.dumps(entry["input_dtypes"])
    return Call(
        rank, entry["process_group"][0], entry["collective_seq_id"], entry["record_id"], operation,
        f"{operation} {shapes} {dtypes}", entry["retired"], entry["time_created_ns"],
        shapes=shapes, dtypes=dtypes, backend="nccl",
        place=Place(FILE, entry["frames"][1]["line"]),
    )  # fmt: skip
