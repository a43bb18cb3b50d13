"""Every query on generated traces: its rows change only where a change of the project says so.

The digests are no answers worked out beside the queries; those are in the other modules. They show
which queries and columns a change reaches, for far more kinds of rows than can be worked out.
"""

from __future__ import annotations

import pytest
from fingerprints import Question, committed, fingerprint, questions

RENEW = "run tests/generated/fingerprints.py if the change is meant"


@pytest.mark.parametrize("question", questions(), ids=str)
def test_query_returns_the_same_columns(question: Question) -> None:
    found, expected = fingerprint(question), committed().get(str(question), {})
    changed = {name for name in found.keys() | expected if found.get(name) != expected.get(name)}
    assert not changed, f"{question}: other values in {sorted(changed)}; {RENEW}"


def test_file_names_no_other_queries() -> None:
    assert committed().keys() <= {str(question) for question in questions()}


def test_most_queries_return_rows() -> None:
    assert len(committed()) >= 0.95 * len(questions())
