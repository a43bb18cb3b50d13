"""Whether two runs do the same work, decided from amounts of work."""

from __future__ import annotations

from typing import Any

import pytest

from tbd_trace.analysis.diff.headline import headline
from tbd_trace.analysis.diff.verdict import Verdict, Word
from tbd_trace.analysis.diff.work import SameWork, Work, compared_work, differences

# A step of A; B is the same but for what a test changes.
AMOUNTS: dict[str, Any] = {
    "batch": 32, "rows": 4096, "parameters": 1e6, "FLOP": 1e12, "size": 1e12, "backward": 2e12,
    "trained values": 1e6, "passes": 1, "loss": 32_000, "optimizer": 1e6, "bytes": 4e6,
    "collectives": 8, "communication": 1e6, "kernels": 500, "matrix kernels": 80,
    "matrix blocks": 60_000, "matrix time": 5e6, "ranks": 1, "has backward": 1, "has optimizer": 1,
    "compiled": 0, "graphs": 0, "error": 0.0,
}  # fmt: skip
NAMES = {"GPU": "A100", "precision": "float32", "optimizer": "addcdiv"}
WITHOUT_SHAPES = {"FLOP": None, "size": None, "trained values": None, "loss": None, "batch": None}


def compared(b: dict[str, Any], a: dict[str, Any] | None = None, **options: Any) -> Work:
    """Compare A with a run whose amounts, or names, differ."""
    rows = []
    for what in dict.fromkeys([*AMOUNTS, *NAMES]):
        row: dict[str, Any] = {"what": what}
        for side, changes in (("a", a or {}), ("b", b)):
            changed = changes.get(what, AMOUNTS.get(what))
            is_name = isinstance(changed, str)
            row[side] = AMOUNTS.get(what) if is_name else changed
            row[f"{side}_name"] = changed if is_name else NAMES.get(what)
        rows.append(row)
    return compared_work(rows, **options)


def words(work: Work) -> list[str]:
    return [what for what, _, _ in work.differs]


@pytest.mark.parametrize(
    "b",
    [
        {},
        {"kernels": 300, "matrix kernels": 60},  # fused
        {"precision": "bfloat16"},
        {"compiled": 1},
        {"FLOP": 0.996e12},  # within the tolerance
        {"bytes": 1e6},  # another loader
        {"optimizer": "fused"},
        {"batch": 16, "rows": 2048, "passes": 2, "parameters": 2e6, "trained values": 2e6},
        {"collectives": 2},  # larger buckets
        {"communication": 4e6},
    ],
)
def test_honest_changes_are_the_same_work(b: dict[str, Any]) -> None:
    assert compared(b).verdict is SameWork.SAME


@pytest.mark.parametrize(
    ("b", "named"),
    [
        ({"batch": 16, "rows": 2048, "FLOP": 5e11, "backward": 1e12}, ["batch", "rows", "FLOP"]),
        ({"FLOP": 0.99e12}, ["FLOP"]),
        ({"backward": 1e12}, ["backward"]),
        ({"trained values": 5e5}, ["trained values"]),
        ({"loss": 16_000}, ["loss"]),
        ({"loss": None}, ["loss"]),
        ({"optimizer": 5e5}, ["optimizer"]),
        ({"communication": 0, "collectives": 0}, ["collectives", "communication"]),
        ({"backward": 0, "has backward": 0}, ["backward"]),
        # Also where compiled code hides operators.
        ({"compiled": 1, "trained values": 5e5}, ["trained values"]),
    ],
)
def test_less_work_is_named(b: dict[str, Any], named: list[str]) -> None:
    work = compared(b)
    assert work.verdict is SameWork.LESS
    assert set(named) <= set(words(work))


def test_more_work_is_named() -> None:
    work = compared({"batch": 64, "rows": 8192, "FLOP": 2e12, "backward": 4e12})
    assert work.verdict is SameWork.MORE
    assert (work.unit, work.units_ratio) == ("sample", 2)


def test_gradients_that_each_pass_adds_are_compared_by_pass() -> None:
    accumulated = {"passes": 2, "trained values": 2e6, "batch": 16, "rows": 2048}
    assert compared({}, accumulated).verdict is SameWork.SAME
    frozen = {"trained values": 5e5}
    assert words(compared(frozen, accumulated))[-1] == "trained values"


@pytest.mark.parametrize("what", ["GPU", "ranks"])
def test_other_hardware_is_named(what: str) -> None:
    changed: Any = "H100" if what == "GPU" else 2
    work = compared({what: changed})
    assert (work.verdict, words(work)) == (SameWork.OTHER, [what])


def test_hidden_operators_leave_the_work_unknown() -> None:
    for hides in ({"compiled": 1}, {"graphs": 1}):
        assert compared({"FLOP": 5e11, **hides}).verdict is SameWork.UNKNOWN
        assert compared({}, {"FLOP": 5e11, **hides}).verdict is SameWork.UNKNOWN


def test_unknown_strides_leave_shapes_to_compare() -> None:
    unknown = {"FLOP": None}
    assert compared(unknown, unknown).verdict is SameWork.SAME
    work = compared({"FLOP": None, "size": 5e11}, unknown)
    assert (work.verdict, words(work)) == (SameWork.LESS, ["FLOP"])


def test_steps_of_any_length_widen_the_tolerance() -> None:
    assert compared({"FLOP": 0.97e12}).verdict is SameWork.LESS
    assert compared({"FLOP": 0.97e12, "error": 1.0}).verdict is SameWork.SAME
    assert compared({"FLOP": 0.90e12, "error": 1.0}).verdict is SameWork.LESS


def test_steps_that_vary_too_much_show_no_same_work() -> None:
    work = compared({"FLOP": 0.9e12, "error": 5.0})
    assert work.verdict is SameWork.UNKNOWN
    assert work.reason == (
        "steps vary, so that their means are known to 16 % only; record more steps"
    )
    assert compared({"FLOP": 0.5e12, "error": 5.0}).verdict is SameWork.LESS


@pytest.mark.parametrize(
    ("b", "verdict"),
    [
        ({}, SameWork.UNKNOWN),
        ({"matrix kernels": 60}, SameWork.UNKNOWN),
        ({"bytes": 2e6}, SameWork.UNKNOWN),  # a loader that copies fewer bytes
        ({"bytes": 2e6, "matrix time": 2.5e6}, SameWork.LESS),
        ({"matrix blocks": 30_000, "matrix time": 2.5e6}, SameWork.LESS),
        ({"matrix time": 2.5e6}, SameWork.UNKNOWN),  # a faster GPU
        ({"bytes": 8e6, "matrix time": 1e7}, SameWork.MORE),
        ({"has optimizer": 0}, SameWork.LESS),
        ({"GPU": "H100"}, SameWork.OTHER),
    ],
)
def test_without_shapes_work_is_refuted_but_not_proved(
    b: dict[str, Any], verdict: SameWork
) -> None:
    work = compared(WITHOUT_SHAPES | b, WITHOUT_SHAPES)
    assert work.verdict is verdict
    assert verdict is not SameWork.UNKNOWN or "record_shapes=True" in (work.reason or "")


def test_steps_without_products_are_compared_by_gradients_and_updates() -> None:
    unknown = {"FLOP": None, "size": None, "backward": None}
    work = compared(unknown, unknown)
    assert (work.verdict, work.reason) == (
        SameWork.UNKNOWN,
        "the steps have no products, convolutions or attention of known sizes",
    )
    assert words(compared(unknown | {"optimizer": 5e5}, unknown)) == ["optimizer"]


def test_captures_that_state_model_and_batch_do_the_same_work() -> None:
    stated = WITHOUT_SHAPES | {"batch": 32}
    assert compared(stated, stated, is_stated=True).verdict is SameWork.SAME
    less = compared(stated | {"batch": 16}, stated, is_stated=True)
    assert (less.verdict, less.differs[0]) == (SameWork.LESS, ("batch", 32, 16))


@pytest.mark.parametrize(
    ("word", "work", "said"),
    [
        (Word.FASTER, Work(SameWork.SAME), "faster at the same work"),
        (Word.NO_CHANGE, Work(SameWork.SAME), "no change beyond noise, at the same work"),
        (
            Word.FASTER,
            Work(SameWork.LESS, (("batch", 32.0, 16.0), ("FLOP", 1e12, 5e11))),
            "faster, but less work: batch 32 → 16, FLOP × 0.50",
        ),
        (
            Word.SLOWER,
            Work(SameWork.OTHER, (("GPU", "A100", "T4"),)),
            "slower, with other hardware: GPU A100 → T4",
        ),
        (Word.FASTER, Work(SameWork.UNKNOWN, reason="r"), "faster; work unknown (r)"),
        (Word.NOT_COMPARABLE, Work(SameWork.LESS), "not comparable"),
    ],
)
def test_headlines(word: Word, work: Work, said: str) -> None:
    assert headline(Verdict(word, ""), work) == said


def test_what_is_missing_and_what_is_too_much_to_list() -> None:
    assert differences([("backward", 2e12, 0), ("collectives", 0, 8)]) == (
        "no backward, collectives in B only"
    )
    assert differences([("rows", 2, 1)] * 7).endswith(" and 2 more")
