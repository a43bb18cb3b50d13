"""What is printed and drawn of generated traces changes only where a change of the project says so.

As in test_generated.py, the digests are no answers worked out beside the code. Other versions of
matplotlib and polars may place ticks or write floats otherwise.
"""

from __future__ import annotations

import pytest
from fingerprints import Question, committed, digest
from renderings import FILE, drawn_questions, renderings

RENEW = "run tests/generated/renderings.py if the change is meant"


@pytest.mark.parametrize("question", drawn_questions(), ids=str)
def test_metric_looks_the_same(question: Question) -> None:
    found = {form: digest(text) for form, text in renderings(question).items()}
    expected = committed(FILE)[str(question)]
    changed = {form for form in found.keys() | expected if found.get(form) != expected.get(form)}
    assert not changed, f"{question}: {sorted(changed)} differ; {RENEW}"
