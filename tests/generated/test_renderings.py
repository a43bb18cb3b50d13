"""Regression test of the tables, exports and plots of each metric on generated traces.

The committed digests come from the code itself. They can differ with other versions of matplotlib
and polars, which may place ticks or format floats differently.
"""

from __future__ import annotations

import pytest

from query_digests import Question, committed, digest
from renderings import FILE, drawn_questions, renderings

RENEW = "run tests/generated/renderings.py if the change is intended"
pytestmark = pytest.mark.slow  # the traces take 20 s


@pytest.mark.parametrize("question", drawn_questions(), ids=str)
def test_metric_looks_the_same(question: Question) -> None:
    found = {form: digest(text) for form, text in renderings(question).items()}
    expected = committed(FILE).get(str(question), {})
    changed = {form for form in found.keys() | expected if found.get(form) != expected.get(form)}
    assert not changed, f"{question}: {sorted(changed)} differ; {RENEW}"
