"""Steps of real traces without marks, against a table of their repeats."""

from __future__ import annotations

import pytest

import tbd_trace
from corpus import corpus_file_named, reference_rows
from fast import one_in
from parameters import Parameters

MISSED = {"gartangh_Master-s-Dissertation__Darknet-19.qdrep.exp2022.4.sqlite"}
"""Traces in which the table has repeats of a few kernels, and tbd-trace finds none."""


def rows() -> list[tuple[str, int]]:
    table = reference_rows("why/iterations_anchor.csv")
    return list(dict.fromkeys((row["file"], int(row["n"])) for row in table))


@pytest.mark.parametrize(("name", "repeats"), one_in(6, Parameters(rows, 2), then_one_in=10))
def test_steps_are_those_of_the_table(name: str, repeats: int) -> None:
    path = corpus_file_named(name)
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
