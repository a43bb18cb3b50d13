"""Which repeats of a test the fast suite leaves out (``make test``).

``make test-full`` leaves out those marked ``nightly`` only, ``make test-nightly`` runs these. Tests
marked ``slow`` repeat a cheaper test on more data, or take longer than 0.2 s. The functions below
mark some of the cases of one test; the others stay in the fast suite.

A test that is nightly as a whole names one that runs more often and fails for the same faults:
``@pytest.mark.nightly(covered_by="tests/unit/why/test_shares.py::test_shares_sum")``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from parameters import Parameters

slow = pytest.mark.slow
nightly = pytest.mark.nightly
FEW, HALF, ALL = 5, 2, 1
_share_of_examples = HALF  # one in so many is made


def add_options(parser: pytest.Parser) -> None:
    """Add the options; conftest.py calls it."""
    group = parser.getgroup("tbd-trace")
    group.addoption(
        "--few-examples",
        action="store_true",
        help="a fifth of the examples of property tests, as in make test",
    )
    group.addoption(
        "--all-examples",
        action="store_true",
        help="all examples of property tests, instead of half of them",
    )


def configure(config: pytest.Config) -> None:
    """Note whether this run makes few examples; conftest.py calls it before collection."""
    config.addinivalue_line("markers", "property: makes examples (Hypothesis); conftest.py adds it")
    global _share_of_examples  # noqa: PLW0603 test modules ask at import, without a config
    if config.option.few_examples or config.option.markexpr == "not slow":
        _share_of_examples = FEW
    elif config.option.all_examples:
        _share_of_examples = ALL


def one_in(size: int, values: Iterable[Any], *, then_one_in: int = 2) -> list[Any] | Parameters:
    """Mark all parameters slow except the first of each ``size``.

    Args:
        size: parameters per group.
        values: values of one argument, tuples of values of several, or ``pytest.param``.
        then_one_in: slow parameters per group, of which all but the first are nightly, too.
    """

    def marked(found: list[Any]) -> list[Any]:
        return _marked(found, [i % size == 0 for i in range(len(found))], then_one_in)

    return _changed(values, marked)


def first_of_each_format(files: Iterable[Any], *, then_one_in: int = 1) -> list[Any] | Parameters:
    """Mark all files slow except the first of each directory and file extension.

    Args:
        files: paths, or parameters with a path such as those of ``corpus.corpus_files``.
        then_one_in: as of `one_in`.
    """

    def marked(found: list[Any]) -> list[Any]:
        paths: list[Path] = [file.values[0] if hasattr(file, "values") else file for file in found]
        kinds = [(path.parent, path.suffix) for path in paths]
        return _marked(found, [kind not in kinds[:i] for i, kind in enumerate(kinds)], then_one_in)

    return _changed(files, marked)


def examples(count: int) -> int:
    """Return how many examples Hypothesis makes.

    A fifth of ``count`` in the fast suite, half in the full suite, all with ``--all-examples``; of
    few examples at least two and six.
    """
    fewest = 2 if _share_of_examples == FEW else 6
    return max(count // _share_of_examples, min(count, fewest))


def _changed(
    values: Iterable[Any], change: Callable[[list[Any]], list[Any]]
) -> list[Any] | Parameters:
    # Lazy parameters stay lazy.
    return values.changed(change) if isinstance(values, Parameters) else change(list(values))


def _marked(values: list[Any], is_fast: list[bool], then_one_in: int) -> list[Any]:
    turns = count()
    return [
        value if fast else _with(value, slow, *([nightly] if next(turns) % then_one_in else []))
        for value, fast in zip(values, is_fast, strict=True)
    ]


def _with(value: Any, *marks: pytest.MarkDecorator) -> Any:
    if hasattr(value, "marks"):
        return pytest.param(*value.values, marks=[*value.marks, *marks], id=value.id)
    if isinstance(value, tuple):
        return pytest.param(*value, marks=marks)
    return pytest.param(value, marks=marks)
