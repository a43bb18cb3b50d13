"""Generated jobs: collectives of ranks on shifted clocks, measured points, link tests."""

from __future__ import annotations

from random import Random
from typing import Any

from made_trace import MadeTrace

MS = 1_000_000  # ns
KINDS = ["allreduce", "_allgather_base", "_reduce_scatter_base", "broadcast", "barrier"]
KIND_OF = (0, 1, 0, 0, 2, 0, 3, 0, 4)  # of each collective in turn


def add_rank(made: MadeTrace, dice: Random, trace_id: str, rank: int, starts: list[int]) -> None:
    """Add the collectives of gloo of one rank, which begins each up to 40 ms late.

    Args:
        made: where the rows go.
        dice: source of randomness.
        trace_id: the trace.
        rank: the rank.
        starts: earliest begin of each collective on all ranks, ns.
    """
    shift = dice.choice([0, 0, 3 * MS])
    made.add("job_rank", trace_id=trace_id, job="job", rank=rank, world_size=3,
        backend="gloo", host=dice.choice(["a", "a", "b"]), evidence="distributedInfo")  # fmt: skip
    for number, start in enumerate(starts):
        if dice.random() < 0.05:
            continue
        begin = start + shift + dice.choice([0, 0, 10, 40]) * MS
        end = start + shift + 50 * MS + number % 3 * 10 * MS
        elements = (1000, 6_000_000)[number % 2] * (1 + number % 4) + (dice.random() < 0.05)
        made.add("collective_record", trace_id=trace_id, record_id=made.next_id(), source="gloo",
            kind=KINDS[KIND_OF[number % len(KIND_OF)]], start_ns=begin, end_ns=end, process_id=1,
            thread_id=9, group_name=None, group_ranks=None,
            group_size=dice.choice([3, 3, 3, None]), sequence=number, input_elements=elements,
            output_elements=elements, dtype=dice.choice(["Float", "Float", "float"]))  # fmt: skip
        if dice.random() < 0.3:
            made.add("collective_record", trace_id=trace_id, record_id=made.next_id(),
                source="bucket", kind=dice.choice(["all_gather", "reduce_scatter", "all_reduce"]),
                start_ns=begin - MS, end_ns=end + MS, process_id=1, thread_id=1,
                bytes=4 * elements, bucket=number % 4)  # fmt: skip


def add_points(made: MadeTrace, dice: Random, trace_id: str) -> None:
    """Add iterations measured with one to four ranks on links of several bandwidths."""
    number = 0
    for world in (1, 2, 4):
        for gbit in (0.3, 1, 10):
            number += 1
            link: dict[str, Any] = {"bandwidth_bits_per_s": gbit * 1e9} if world > 1 else {}
            seconds = dice.choice([1e-5, 2e-5, 5e-5]) * (1 + world / gbit)
            made.add("job_point", trace_id=trace_id, point_id=number, is_own=world == 1,
                scheme=dice.choice(["ddp", "ddp", "ps"]), world_size=world, iterations=9,
                latency_added_s=dice.choice([None, 0.0, 1e-3]), median_s=seconds,
                quietest_s=dice.choice([None, seconds * 0.9]),
                is_stable=dice.choice([True, False, None]),
                all_reduce_s=dice.choice([None, 1e-6]),
                busbw_bytes_per_s=dice.choice([None, gbit * 1e8]),
                host_bytes_per_s=dice.choice([None, 1e9]), **link)  # fmt: skip


def add_link_test(made: MadeTrace, dice: Random, trace_id: str) -> None:
    """Add the measurements of nccl-tests: sizes up to 8 MiB, in place and out of place."""
    number = 0
    for placement in ("in-place", "out-of-place"):
        for exponent in range(3, 24, 2):
            number += 1
            size = 1 << exponent
            time = 20_000 + size // 10 + dice.choice([0, 0, 500])
            made.add("link_sample", trace_id=trace_id, sample_id=number,
                kind=dice.choice(["all_reduce", "all_reduce", "all_gather"]),
                kind_evidence="file name", ranks=4, nodes=dice.choice([1, 2, None]),
                placement=placement, bytes=size, elements=size // 4, dtype="float",
                operation="sum", time_ns=time, algbw_bytes_per_s=size / time * 1e9,
                busbw_bytes_per_s=dice.choice([None, 1.5 * size / time * 1e9]),
                errors=dice.choice([0, 0, None, 2]))  # fmt: skip
