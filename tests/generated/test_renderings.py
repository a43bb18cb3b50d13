"""Regression test of the tables, exports and plots of each metric on generated traces.

The committed digests come from the code itself. They can differ with other versions of matplotlib
and polars, which may place ticks or format floats differently.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fast import one_in
from query_digests import Question, committed, digest
from renderings import FILE, drawn_questions, renderings
from shared_programs import programs_read_once

RENEW = "run tests/generated/renderings.py if the change is intended"
pytestmark = pytest.mark.slow  # the traces take 20 s


@pytest.fixture(scope="module", autouse=True)
def programs() -> Iterator[None]:
    with programs_read_once():
        yield


@pytest.mark.parametrize("question", one_in(9, drawn_questions(), then_one_in=6), ids=str)
def test_metric_looks_the_same(question: Question) -> None:
    found = {form: digest(text) for form, text in renderings(question).items()}
    expected = committed(FILE).get(str(question), {})
    changed = {form for form in found.keys() | expected if found.get(form) != expected.get(form)}
    assert not changed, f"{question}: {sorted(changed)} differ; {RENEW}"
