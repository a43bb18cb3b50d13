"""Steps of real traces without marks, against a table of their repeats."""

from __future__ import annotations

import csv

import pytest

import tbd_trace
from corpus import CORPUS, REFERENCE, needs_corpus
from fast import one_in

TABLE = REFERENCE / "why" / "iterations_anchor.csv"
pytestmark = [
    needs_corpus,
    pytest.mark.skipif(not TABLE.is_file(), reason="no reference tables of why"),
]
MISSED = {"gartangh_Master-s-Dissertation__Darknet-19.qdrep.exp2022.4.sqlite"}
"""Traces in which the table has repeats of a few kernels, and tbd-trace finds none."""


def rows() -> list[tuple[str, int]]:
    if not TABLE.is_file():
        return [("none", 0)]
    with TABLE.open(encoding="utf-8", newline="") as file:
        return [(row["file"], int(row["n"])) for row in csv.DictReader(file)]


@pytest.mark.parametrize(("name", "repeats"), one_in(6, dict.fromkeys(rows())))
def test_steps_are_those_of_the_table(name: str, repeats: int) -> None:
    path = next(CORPUS.rglob(name), None)
    if path is None:
        pytest.skip(f"no real trace {name}")
    found = tbd_trace.open(path).sql(
        "SELECT method, count(*) AS steps FROM iteration GROUP BY process_id, method"
    )
    by_anchor = [steps for method, steps in found.rows() if method == "anchor kernel"]
    if name in MISSED or repeats == 0:
        assert by_anchor == []
    elif by_anchor:
        # The last repeat may be incomplete.
        assert max(by_anchor) == pytest.approx(repeats, abs=max(1, repeats // 10))
    else:
        assert set(found["method"]) <= {"nvtx range", "torch range"}
        assert found.height > 0
