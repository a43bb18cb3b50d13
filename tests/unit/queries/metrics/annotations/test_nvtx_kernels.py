"""nvtx_kernels against a program that keeps account of its own ranges while it launches."""

from __future__ import annotations

import statistics
from collections import defaultdict
from itertools import combinations_with_replacement
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fast import examples
from made_trace import SAME_HASH, MadeTrace, metric

DOMAINS = [None, "lib"]
Step = tuple[str, int, str]

step = st.tuples(
    st.sampled_from(["push", "push", "pop", "start", "end", "launch", "launch"]),
    st.integers(0, 1),  # domain
    st.sampled_from(SAME_HASH),
)


class Program:
    """A thread that does one step each ns, and what it knows of its ranges.

    Attributes:
        launched: per kernel its name, its duration, and the ranges open at its launch, each with
            its number, its texts from the root on, its domain and its kind.
    """

    def __init__(self, made: MadeTrace, trace: str, thread: int) -> None:
        self._made = made
        self._row: dict[str, Any] = {"trace_id": trace, "thread_id": thread}
        self._now = 0
        self._stacks: dict[int, list[tuple[int, str, int]]] = {0: [], 1: []}
        self._free: list[tuple[int, str, int, int]] = []
        self.launched: list[tuple[str, int, list[tuple[int, list[str], int, str]]]] = []

    def run(self, steps: list[Step]) -> None:
        for action, domain, text in steps:
            self._now += 10
            if action == "push":
                self._stacks[domain].append((self._now, text, self._made.next_id()))
            elif action == "pop" and self._stacks[domain]:
                self._close(domain, "push_pop", *self._stacks[domain].pop())
            elif action == "start":
                self._free.append((domain, text, self._now, self._made.next_id()))
            elif action == "end" and self._free:
                of, named, since, number = self._free.pop(0)
                self._close(of, "start_end", since, named, number)
            elif action == "launch":
                self._launch(text, took=1 + domain)
        for domain, text, since, number in self._free:
            self._now += 10
            self._close(domain, "start_end", since, text, number)
        for domain, stack in self._stacks.items():
            while stack:
                self._now += 10
                self._close(domain, "push_pop", *stack.pop())

    def _close(self, domain: int, kind: str, since: int, text: str, number: int) -> None:
        self._made.add_range(
            since,
            self._now,
            text,
            annotation_id=number,
            kind=kind,
            domain_id=domain,
            domain=DOMAINS[domain],
            **self._row,
        )

    def _launch(self, name: str, took: int) -> None:
        around = [
            (number, [text for _, text, _ in stack[: place + 1]], domain, "push_pop")
            for domain, stack in self._stacks.items()
            for place, (_, _, number) in enumerate(stack)
        ]
        around += [(number, [text], domain, "start_end") for domain, text, _, number in self._free]
        start = 10_000 + self._now
        self._made.launch(self._now, start, start + took, name, **self._row)
        self.launched.append((name, took, around))


def expected(programs: dict[int, Program], by: str) -> dict[Any, Any]:
    found: dict[Any, list[tuple[int, int, int]]] = defaultdict(list)
    for thread, program in programs.items():
        for kernel, (name, took, around) in enumerate(program.launched):
            for number, texts, domain, kind in around:
                before = DOMAINS[domain]
                if by == "path":
                    path = (f"{before}: " if before else "") + " > ".join(texts)
                else:
                    path = (f"{before}:" if before else "") + texts[-1]
                found[path, kind, thread, name].append((number, kernel, took))
            if not around:
                found[None, None, thread, name].append((0, kernel, took))
    return {
        key: (
            len({number for number, _, _ in held if number}),
            len({kernel for _, kernel, _ in held}),
            sum(took for *_, took in held),
            statistics.median(took for *_, took in held),
            min(took for *_, took in held),
            max(took for *_, took in held),
            pytest.approx(statistics.stdev(took for *_, took in held)) if len(held) > 1 else None,
        )
        for key, held in found.items()
    }


@settings(max_examples=examples(10))
@given(
    traces=st.lists(
        st.lists(st.lists(step, max_size=40), min_size=1, max_size=2), min_size=3, max_size=8
    )
)
@pytest.mark.parametrize("by", ["path", "range"])
def test_kernels_count_in_the_ranges_open_at_their_launch(
    by: str, traces: list[list[list[Step]]]
) -> None:
    made = MadeTrace()
    programs: dict[str, dict[int, Program]] = {}
    for number, threads in enumerate(traces):
        trace = f"t{number}"
        mine = programs[trace] = {}
        for thread, steps in enumerate(threads, 1):
            made.add("thread", trace_id=trace, process_id=1, thread_id=thread, tid=thread)
            mine[thread] = Program(made, trace, thread)
            mine[thread].run(steps)
    rows = metric(made, "nvtx_kernels", by=by)
    found: dict[str, dict[Any, Any]] = {trace: {} for trace in programs}
    for row in rows:
        key = tuple(row[name] for name in ("range_path", "style", "tid", "kernel_name"))
        found[row["trace_id"]][key] = (
            *(row[name] for name in ("range_instances", "instances", "total_ns")),
            *(row[name] for name in ("median_ns", "min_ns", "max_ns", "stddev_ns")),
        )
    assert found == {trace: expected(mine, by) for trace, mine in programs.items()}
    assert len(rows) == sum(map(len, found.values()))


@pytest.mark.slow
def test_rows_come_in_the_order_in_which_their_paths_begin() -> None:
    made = MadeTrace()
    made.launch(5, 1000, 1001, "before")
    for at, text in ((10, "z"), (20, "a"), (30, "z")):
        made.add_range(at, at + 9, text)
        made.launch(at + 1, 1000 + at, 1002 + at, "short")
        made.launch(at + 3, 1004 + at, 1009 + at, "long")
    rows = metric(made, "nvtx_kernels")
    assert [(row["range_path"], row["kernel_name"]) for row in rows] == [
        ("z", "long"),
        ("z", "short"),
        ("a", "long"),
        ("a", "short"),
        (None, "before"),
    ]
    for first, last in combinations_with_replacement(range(1, 7), 2):
        shown = metric(made, "nvtx_kernels", first_row=first, last_row=last)
        assert shown == rows[first - 1 : last]


@pytest.mark.parametrize("by", ["path", "range"])
def test_texts_of_the_same_hash_are_two(by: str) -> None:
    made = MadeTrace()
    for at, text in zip((0, 100), SAME_HASH, strict=True):
        made.add_range(at, at + 50, text)
        made.launch(at + 10, 1000 + at, 1010 + at)
    rows = metric(made, "nvtx_kernels", by=by)
    assert [(row["range_path"], row["instances"]) for row in rows] == [(t, 1) for t in SAME_HASH]


def test_a_long_path_keeps_its_two_ends() -> None:
    made = MadeTrace()
    for depth in range(20):
        made.add_range(depth, 100 - depth, f"r{depth}")
    made.launch(50, 1000, 1001)
    paths = [row["range_path"].split(" > ") for row in metric(made, "nvtx_kernels")]
    texts = [f"r{depth}" for depth in range(20)]
    assert paths[15] == texts[:16]
    assert paths[19] == [*texts[:8], "…", *texts[12:]]
