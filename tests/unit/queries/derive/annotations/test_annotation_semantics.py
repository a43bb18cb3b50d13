"""Which ranges may own a kernel (annotation_semantics), by looking at every pair of ranges."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from fast import examples
from made_trace import MadeTrace, relation

ITERATION, OPERATOR, PLAIN, CONVENTION = 0, 1, 3, 5
KINDS = {
    "iteration 1": ITERATION,
    "phase:forward": ITERATION,
    "aten::conv2d": OPERATOR,
    "aten::linear, seq = 7": OPERATOR,
    "autograd::engine::evaluate_function: AddBackward0, seq = 7": OPERATOR,
    "fc": PLAIN,
    "conv": PLAIN,
    "train": PLAIN,  # the name of a loop
    "only one": PLAIN,
    "layer:a": CONVENTION,
    "layer_backward:a": CONVENTION,
}
BACKWARD = {text for text in KINDS if "ackward" in text}


@dataclass(frozen=True, slots=True)
class Range:
    """A range, which ends no earlier than it begins."""

    number: int
    start: int
    end: int
    text: str
    kind: str
    thread: int
    stays: bool

    @property
    def stack(self) -> tuple[str, int]:
        """What it can nest in."""
        return self.kind, self.thread

    @property
    def in_stack(self) -> tuple[int, bool, int, int]:
        """Where it comes among those of its stack: what holds another comes first."""
        return self.start, self.end == self.start, -self.end, self.number


def owners(ranges: list[Range]) -> set[int]:
    """Return the numbers of the layers that may own."""
    texts = [one.text for one in ranges]
    numbered = {one.stack for one in ranges if one.text == "aten::linear, seq = 7"}

    def holds(one: Range, inner: int) -> bool:
        return any(
            KINDS[other.text] == inner and other.in_stack > one.in_stack and other.start < one.end
            for other in ranges
            if other.stack == one.stack
        )

    def rank(one: Range) -> int:
        kind = KINDS[one.text]
        if kind != PLAIN:
            return kind
        if one.text == "train" or (one.kind == "push_pop" and holds(one, ITERATION)):
            return 0
        once = texts.count(one.text) == 1
        return 0 if once and one.kind == "push_pop" and holds(one, PLAIN) else PLAIN

    def outdone(one: Range) -> bool:
        until = one.end + (one.end == one.start)
        return any(
            until <= other.end and (rank(one) == OPERATOR or rank(other) == CONVENTION)
            for other in ranges
            if other.stack == one.stack
            and (other.start, other.number) < (one.start, one.number)
            and rank(other)
            and other.stays
            and not (other.text in BACKWARD and other.stack in numbered)
        )

    return {
        one.number for one in ranges if rank(one) and (rank(one) == CONVENTION or not outdone(one))
    }


made_ranges = st.lists(
    st.tuples(
        st.integers(0, 30),  # start
        st.one_of(st.integers(0, 4), st.integers(0, 40)),  # length
        st.sampled_from(list(KINDS)),
        st.sampled_from(["push_pop", "push_pop", "push_pop", "start_end"]),
        st.integers(1, 2),  # thread
        st.sampled_from([True, True, True, False]),  # whether the same thread closes it
    ),
    max_size=25,
)


@settings(max_examples=examples(40))
@given(traces=st.lists(made_ranges, min_size=1, max_size=10))
def test_what_may_own_a_kernel(
    traces: list[list[tuple[int, int, str, str, int, bool]]],
) -> None:
    """Among them ranges that nest, cross, begin or end together and have no length."""
    made = MadeTrace()
    expected = set()
    for number, spans in enumerate(traces):
        ranges = []
        for start, length, text, kind, thread, stays in spans:
            end = start + length
            row = {"kind": kind, "thread_id": thread, "end_thread_id": thread + (not stays)}
            identity = made.add_range(start, end, text, trace_id=f"t{number}", **row)
            ranges.append(Range(identity, start, end, text, kind, thread, stays))
        expected |= owners(ranges)
    rows = relation(made, "annotation_semantics")
    assert {r["annotation_id"] for r in rows if r["layer_order"] is not None} == expected


def test_positions_are_those_of_beginnings_trace_by_trace() -> None:
    made = MadeTrace()
    starts = [30, 10, 20, 10, 0]
    spans = [(trace, start) for trace in ("u", "t") for start in starts]
    numbers = [
        made.add_range(start, start + 5, "layer:conv1", trace_id=trace, thread_id=number % 2)
        for number, (trace, start) in enumerate(spans)
    ]
    order = sorted(zip(spans, numbers, strict=True))
    rows = relation(made, "annotation_semantics")
    positions = {row["position"]: row["annotation_id"] for row in rows}
    assert [positions[place] for place in range(1, 11)] == [number for _, number in order]
    orders = {row["annotation_id"]: row["layer_order"] for row in rows}
    assert sorted(numbers, key=orders.__getitem__) == [number for _, number in order]
