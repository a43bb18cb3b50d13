"""Regression test of every query on generated traces.

The committed digests come from the queries themselves; tests/golden has independent answers. The
digests cover many more kinds of rows than can be worked out by hand.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from query_digests import Question, committed, digests, questions
from shared_programs import programs_read_once

RENEW = "run tests/generated/query_digests.py if the change is intended"
pytestmark = pytest.mark.slow  # the traces take 20 s


@pytest.fixture(scope="module", autouse=True)
def programs() -> Iterator[None]:
    with programs_read_once():
        yield


@pytest.mark.slow
@pytest.mark.parametrize("question", questions(), ids=str)
def test_columns_have_the_committed_digests(question: Question) -> None:
    found, expected = digests(question), committed().get(str(question), {})
    changed = {name for name in found.keys() | expected if found.get(name) != expected.get(name)}
    assert not changed, f"{question}: other values in {sorted(changed)}; {RENEW}"


def test_file_names_no_other_queries() -> None:
    assert committed().keys() <= {str(question) for question in questions()}


def test_most_queries_return_rows() -> None:
    assert len(committed()) >= 0.94 * len(questions())
