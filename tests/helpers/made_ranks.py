"""Made ranks of a job whose collectives begin and end at known times."""

from __future__ import annotations

from typing import Any

from made_trace import MadeTrace

MS = 1_000_000
Call = tuple[int, int]  # start and end


def job(
    ranks: dict[int, list[Call]],
    *,
    utc: dict[int, int | None] | None = None,
    hosts: dict[int, str] | None = None,
    world: int | None = None,
    sizes: dict[tuple[int, int], int] | None = None,
    kind: str = "all_reduce",
) -> MadeTrace:
    """Traces of a job with all-reduces of 1,000 floats; ``sizes`` are others by rank and number."""
    made = MadeTrace()
    for rank, calls in ranks.items():
        trace = f"t{rank}"
        made.add_trace(trace, name=f"run/rank{rank}.json", utc_start_ns=(utc or {}).get(rank))
        made.add("job_rank", trace_id=trace, job="run", rank=rank, world_size=world,
                 host=(hosts or {}).get(rank), evidence="distributedInfo")  # fmt: skip
        for number, (start, end) in enumerate(calls):
            made.add(
                "collective_record", trace_id=trace, record_id=number + 1, source="gloo",
                kind=kind, start_ns=start, end_ns=end, process_id=1, thread_id=1,
                input_elements=(sizes or {}).get((rank, number), 1000), dtype="float",
            )  # fmt: skip
    return made


def shifted(calls: list[Call], by: int) -> list[Call]:
    return [(start + by, end + by) for start, end in calls]


def late(rank: int, ranks: int, count: int, delay: int = 40 * MS) -> dict[int, list[Call]]:
    """Collectives every 200 ms that end together; one rank begins late in all of them."""
    return {
        each: [
            (200 * MS * k + (delay if each == rank else 0), 200 * MS * k + 100 * MS)
            for k in range(count)
        ]
        for each in range(ranks)
    }


ONE_HOST: dict[str, Any] = {
    "utc": dict.fromkeys(range(8), 10**18), "hosts": dict.fromkeys(range(8), "a"),
}  # fmt: skip


def alone(kind: str | None, *durations: int, **record: Any) -> MadeTrace:
    """One trace without a rank, with gloo collectives of 1,000 floats between four ranks."""
    made = MadeTrace()
    for number, duration in enumerate(durations):
        made.add("collective_record", **{
            "record_id": number, "source": "gloo", "kind": kind, "start_ns": number * MS,
            "end_ns": number * MS + duration, "process_id": 1, "thread_id": 1, "group_size": 4,
            "input_elements": 1000, "dtype": "float",
        } | record)  # fmt: skip
    return made
