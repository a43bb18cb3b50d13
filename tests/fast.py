"""Which repeats of a test the fast suite leaves out (``make test``).

``make test-full`` leaves out those marked ``nightly`` only, ``make test-nightly`` runs these. Tests
marked ``slow`` repeat a cheaper test on more data, or take longer than 2 s. The functions
below mark some of the cases of one test; the others stay in the fast suite.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

slow = pytest.mark.slow
nightly = pytest.mark.nightly
_leaves_out_slow = False


def configure(config: pytest.Config) -> None:
    """Note whether this run leaves out slow tests; conftest.py calls it before collection."""
    global _leaves_out_slow  # noqa: PLW0603 test modules ask at import, without a config
    _leaves_out_slow = config.option.markexpr == "not slow"


def one_in(count: int, values: Iterable[Any]) -> list[Any]:
    """Mark all parameters slow except the first of each ``count``.

    Args:
        count: size of the groups.
        values: values of one argument, tuples of values of several, or ``pytest.param``.
    """
    found = list(values)
    return [value if i % count == 0 else _marked(value, slow) for i, value in enumerate(found)]


def first_of_each_format(files: Iterable[Any], then_one_in: int = 1) -> list[Any]:
    """Mark all files slow except the first of each directory and file extension.

    Args:
        files: paths, or parameters with a path such as those of ``corpus.corpus_files``.
        then_one_in: size of the groups of slow files; all but the first of each are nightly, too.
    """
    seen: set[tuple[Path, str]] = set()
    found: list[Any] = []
    repeats = 0
    for file in files:
        path: Path = file.values[0] if hasattr(file, "values") else file
        kind = path.parent, path.suffix
        if kind not in seen:
            found.append(file)
        else:
            is_nightly = repeats % then_one_in > 0
            found.append(_marked(file, slow, nightly) if is_nightly else _marked(file, slow))
            repeats += 1
        seen.add(kind)
    return found


def examples(count: int) -> int:
    """Return how many examples Hypothesis makes: ``count``, and a fifth in the fast suite."""
    return max(count // 5, 2) if _leaves_out_slow else count


def _marked(value: Any, *marks: pytest.MarkDecorator) -> Any:
    if hasattr(value, "marks"):
        return pytest.param(*value.values, marks=[*value.marks, *marks], id=value.id)
    if isinstance(value, tuple):
        return pytest.param(*value, marks=marks)
    return pytest.param(value, marks=marks)
