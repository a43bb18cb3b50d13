"""Made jobs: a PyTorch trace per rank, with one all-reduce of gloo in each iteration."""

from __future__ import annotations

from pathlib import Path

from made_kineto import document, event, write

PERIOD = 200_000  # microseconds of an iteration
ELEMENTS = 5_000_000  # of the all-reduce: 20 MB


def write_job(
    folder: Path,
    ranks: int = 3,
    *,
    late: int | None = None,
    delay: int = 40_000,
    took: int = 60_000,
    iterations: int = 4,
    world: int | None = None,
) -> Path:
    """Write `rank0.json` and so on.

    Args:
        folder: is made.
        late: the rank that begins each all-reduce later than the others.
        delay: by so many microseconds.
        took: microseconds from the last begin to the end.
        world: number of ranks that the files name; by default those that are written.
    """
    folder.mkdir()
    for rank in range(ranks):
        events = []
        for number in range(iterations):
            start = PERIOD * number
            begin = start + 50_000 + (delay if rank == late else 0)
            end = start + 50_000 + (0 if late is None else delay) + took
            args = {"Input Dims": [[ELEMENTS]], "Input type": ["float"]}
            events.append(event("user_annotation", f"ProfilerStep#{number}", start, PERIOD - 1))
            events.append(
                event("user_annotation", "gloo:all_reduce", begin, end - begin, args=args)
            )
        info = {"backend": "gloo", "rank": rank, "world_size": world or ranks}
        header = {"distributedInfo": info, "host_name": "node", "baseTimeNanoseconds": 10**18}
        write(folder / f"rank{rank}.json", document(events, **header))
    return folder
