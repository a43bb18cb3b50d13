"""Parent, depth and path of annotations against a stack that pushes and pops."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fast import examples
from made_trace import MadeTrace, nested

Span = tuple[int, int, int]  # start, end, id


def tree(made: MadeTrace) -> dict[int, tuple[Any, Any, Any]]:
    """Return (parent, depth, path) by range id; every range must be there exactly once."""
    with made.connect() as database:
        paths = {r["annotation_id"]: r["path"] for r in database.relation("annotation_path")}
        rows = database.relation("annotation_tree")
    found = {
        r["annotation_id"]: (r["parent_id"], r["depth"], paths[r["annotation_id"]]) for r in rows
    }
    assert len(found) == len(paths) == len(rows) == len(made.rows["annotation"])
    return found


def simulated(spans: Iterable[Span]) -> dict[int, tuple[int | None, int, str]]:
    """Walk the ranges as the thread's stack saw them.

    Outer before inner where both begin together, ranges without length last; what ended at or
    before a beginning is popped first.
    """
    stack: list[Span] = []
    found: dict[int, tuple[int | None, int, str]] = {}
    for span in sorted(spans, key=lambda s: (s[0], s[0] == s[1], -s[1], s[2])):
        while stack and stack[-1][1] <= span[0]:
            stack.pop()
        parent = stack[-1][2] if stack else None
        path = (found[parent][2] + " > " if parent is not None else "") + f"r{span[2]}"
        found[span[2]] = (parent, len(stack), path)
        stack.append(span)
    return found


def steps(shortest: int) -> st.SearchStrategy[list[tuple[bool, int]]]:
    return st.lists(st.tuples(st.booleans(), st.integers(shortest, 3)), max_size=25)


@pytest.mark.slow
@settings(max_examples=examples(25))
@given(threads=st.lists(steps(1), min_size=1, max_size=6), shuffled=st.randoms())
def test_the_tree_is_the_stack_that_made_the_ranges(
    threads: list[list[tuple[bool, int]]], shuffled: Any
) -> None:
    made = MadeTrace()
    expected: dict[int, tuple[int | None, int, str]] = {}
    for thread, thread_steps in enumerate(threads):
        ranges = nested(thread_steps)
        ids = [made.next_id() for _ in ranges]
        shuffled.shuffle(ids)  # the order of the file need not be that of the beginnings
        for number, (start, end, parent) in zip(ids, ranges, strict=True):
            made.add_range(start, end, f"r{number}", thread_id=thread, annotation_id=number)
            above = None if parent is None else ids[parent]
            depth, path = (expected[above][1] + 1, expected[above][2] + " > ") if above else (0, "")
            expected[number] = (above, depth, f"{path}r{number}")
    assert tree(made) == expected


@pytest.mark.slow
@settings(max_examples=examples(25))
@given(
    threads=st.lists(
        st.tuples(
            st.sampled_from(["t", "u"]),  # trace
            st.sampled_from([1, 2, None]),  # process
            st.sampled_from([1, 2, None]),  # thread
            st.integers(0, 1),  # domain
            steps(0),
        ),
        min_size=1,
        max_size=6,
        unique_by=lambda thread: thread[:4],
    )
)
def test_ties_and_ranges_without_length(threads: list[Any]) -> None:
    made = MadeTrace()
    expected: dict[int, tuple[int | None, int, str]] = {}
    for trace, process, thread, domain, thread_steps in threads:
        key = {"trace_id": trace, "process_id": process, "thread_id": thread, "domain_id": domain}
        spans = [(start, end, made.next_id()) for start, end, _ in nested(thread_steps)]
        for start, end, number in spans:
            made.add_range(start, end, f"r{number}", annotation_id=number, **key)
        expected |= simulated(spans)
    assert tree(made) == expected


@pytest.mark.slow
@settings(max_examples=examples(25))
@given(spans=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 8)), min_size=1, max_size=15))
def test_crossing_ranges_lose_nobody(spans: list[tuple[int, int]]) -> None:
    """Push/pop ranges cannot cross; if a file says so anyway, each still has one place."""
    made = MadeTrace()
    for start, length in spans:
        made.add_range(start, start + length)
    found = tree(made)
    for parent, depth, path in found.values():
        assert depth == (0 if parent is None else found[parent][1] + 1)
        assert path.count(" > ") == depth


@pytest.mark.slow
def test_thousands_of_ranges_come_in_order() -> None:
    """They are more than DuckDB takes at a time, on several threads of its own."""
    random = Random(0)
    made = MadeTrace()
    expected: dict[int, tuple[int | None, int]] = {}
    for thread in range(3):
        choices = [(random.random() < 0.5, random.randrange(3)) for _ in range(12_000)]
        spans = [(start, end, made.next_id()) for start, end, _ in nested(choices)]
        for start, end, number in random.sample(spans, len(spans)):
            made.add_range(start, end, f"r{number}", annotation_id=number, thread_id=thread)
        expected |= {number: place[:2] for number, place in simulated(spans).items()}
    with made.connect() as database:
        rows = database.relation("annotation_tree")
    assert {r["annotation_id"]: (r["parent_id"], r["depth"]) for r in rows} == expected


@pytest.mark.slow
@settings(max_examples=examples(25))
@given(
    threads=st.lists(
        st.tuples(
            st.sampled_from(["push_pop", "start_end"]),
            st.sampled_from([None, "library"]),  # domain
            st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=12),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_equal_texts_and_equal_paths_have_equal_numbers(threads: list[Any]) -> None:
    made = MadeTrace()
    texts: dict[int, tuple[Any, ...]] = {}
    for thread, (kind, domain, steps_of_thread) in enumerate(threads):
        for (start, end, _), (text, _) in zip(
            nested([(push, 1) for _, push in steps_of_thread]),
            [step for step in steps_of_thread if step[1]],
            strict=True,
        ):
            number = made.add_range(
                start, end, text, thread_id=thread, kind=kind, domain=domain, domain_id=thread
            )
            texts[number] = (kind, domain, text)
    with made.connect() as database:
        rows = {r["annotation_id"]: r for r in database.relation("annotation_tree")}
    above: dict[int, tuple[Any, ...]] = {number: (texts[number],) for number in rows}
    for number, row in sorted(rows.items(), key=lambda item: item[1]["depth"]):
        if row["parent_id"] is not None:
            above[number] = (*above[row["parent_id"]], texts[number])
    for first, second in combinations(rows, 2):
        for key, meaning in (("text_id", texts), ("path_id", above)):
            is_same = rows[first][key] == rows[second][key]
            assert is_same == (meaning[first] == meaning[second])


def test_the_order_of_texts_makes_a_path() -> None:
    made = MadeTrace()
    made.add_range(0, 10, "a")
    inner_b = made.add_range(1, 9, "b")
    made.add_range(20, 30, "b")
    inner_a = made.add_range(21, 29, "a")
    with made.connect() as database:
        path_id = {r["annotation_id"]: r["path_id"] for r in database.relation("annotation_tree")}
    assert path_id[inner_a] != path_id[inner_b]


def test_a_path_of_many_ranges_keeps_its_two_ends() -> None:
    made = MadeTrace()
    for depth in range(20):
        made.add_range(depth, 100 - depth, f"r{depth}")
    paths = {depth: path.split(" > ") for _, depth, path in tree(made).values()}
    for depth in range(20):
        texts = [f"r{above}" for above in range(depth + 1)]
        assert paths[depth] == (texts if depth < 16 else [*texts[:8], "…", *texts[-8:]])


def test_equal_ranges_nest_in_the_order_of_the_file() -> None:
    made = MadeTrace()
    outer, inner = made.add_range(0, 9, "outer"), made.add_range(0, 9, "inner")
    assert tree(made) == {outer: (None, 0, "outer"), inner: (outer, 1, "outer > inner")}


def test_back_to_back_ranges_are_siblings() -> None:
    made = MadeTrace()
    first, second = made.add_range(0, 5, "first"), made.add_range(5, 9, "second")
    assert tree(made) == {first: (None, 0, "first"), second: (None, 0, "second")}


def test_a_range_without_length_belongs_to_what_begins_with_it_not_to_what_ends() -> None:
    made = MadeTrace()
    ends, begins = made.add_range(0, 5, "ends"), made.add_range(5, 9, "begins")
    empty = made.add_range(5, 5, "empty")
    assert tree(made)[empty] == (begins, 1, "begins > empty")
    assert tree(made)[ends][0] is None


@pytest.mark.parametrize("key", ["trace_id", "process_id", "thread_id", "domain_id"])
def test_ranges_of_others_are_no_ancestors(key: str) -> None:
    made = MadeTrace()
    made.add_range(0, 100, "outer", **{key: "a" if key == "trace_id" else 1})
    inner = made.add_range(10, 20, "inner", **{key: "b" if key == "trace_id" else 2})
    assert tree(made)[inner] == (None, 0, "inner")


def test_start_end_ranges_are_roots_and_nobody_s_parent() -> None:
    made = MadeTrace()
    free = made.add_range(0, 100, "free", kind="start_end")
    outer = made.add_range(10, 50, "outer")
    inside = made.add_range(20, 30, "inside", kind="start_end", end_thread_id=2)
    inner = made.add_range(20, 30, "inner")
    found = tree(made)
    assert found[free] == (None, 0, "free")
    assert found[outer] == (None, 0, "outer")
    assert found[inside] == (None, 0, "inside")
    assert found[inner] == (outer, 1, "outer > inner")


def test_open_ranges_nest_up_to_the_end_of_the_trace() -> None:
    made = MadeTrace()
    loop = made.add_range(0, 100, "loop", is_open=True)
    step = made.add_range(40, 100, "step", is_open=True)
    done = made.add_range(10, 20, "done")
    found = tree(made)
    assert found[step] == (loop, 1, "loop > step")
    assert found[done] == (loop, 1, "loop > done")


def test_a_range_without_text_has_an_empty_place_in_the_path() -> None:
    made = MadeTrace()
    made.add_range(0, 9, None)
    inner = made.add_range(1, 2, "inner")
    assert tree(made)[inner][2] == " > inner"


def test_deep_nesting() -> None:
    made = MadeTrace()
    ids = [made.add_range(i, 1000 - i, "r") for i in range(300)]
    found = tree(made)
    assert [found[number][1] for number in ids] == list(range(300))
