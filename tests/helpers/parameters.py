"""Parameters that are made when pytest collects a test, not when it imports the module."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

import pytest

from requirements import CORPUS


class Parameters(Sequence[Any]):
    """The parameters of a test, made at their first use.

    Where a requirement is missing there is one parameter that skips with the reason.

    Args:
        make: returns the parameters; may skip.
        arguments: how many arguments of the test each parameter holds.
    """

    def __init__(self, make: Callable[[], Iterable[Any]], arguments: int = 1) -> None:
        self._make = make
        self._arguments = arguments

    @cached_property
    def _values(self) -> list[Any]:
        try:
            return list(self._make())
        except pytest.skip.Exception as skipped:
            mark = pytest.mark.skip(reason=str(skipped))
            return [pytest.param(*[CORPUS] * self._arguments, marks=mark, id="missing")]

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return self.changed(lambda values: values[key])
        return self._values[key]

    def changed(self, change: Callable[[list[Any]], Iterable[Any]]) -> Parameters:
        """Return parameters that a function will make of these."""
        return Parameters(lambda: change(self._values), self._arguments)
