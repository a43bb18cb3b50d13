"""A plot as an object for Python and notebooks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tbd_trace.errors import UsageError
from tbd_trace.present import write
from tbd_trace.present.plot import check_path, render
from tbd_trace.query.result import Result


@dataclass(frozen=True, slots=True, repr=False)
class Drawing:
    """The plot of a query; notebooks show it."""

    result: Result  # the rows
    trace_names: Mapping[str, str]  # names of the traces by id

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the plot to a file, and return its path.

        Raises:
            UsageError: the name ends in neither ``.svg``, ``.png`` nor ``.pdf``.
        """
        file = Path(path)
        check_path(file)
        write(file, self._rendered(file.suffix.lower().removeprefix(".")))
        return file

    def __repr__(self) -> str:
        return f"<Drawing: {self.result.query.title}>"

    def _repr_svg_(self) -> str:
        return self._rendered("svg").decode()

    def _rendered(self, form: str) -> bytes:
        query = self.result.query
        assert query.plot is not None
        return render(
            self.result.frame,
            query.plot,
            title=query.title,
            form=form,
            units={name: column.unit for name, column in query.columns.items()},
            trace_names=self.trace_names,
        )


def draw(result: Result, trace_names: Mapping[str, str]) -> Drawing:
    """Return the plot of a result; raise UsageError if its query declares none."""
    if result.query.plot is None:
        raise UsageError(f"{result.query.name} has no plot; add a [plot] table to its header")
    return Drawing(result, trace_names)
