"""Hand Arrow streams from DuckDB to polars.

The module imports nothing: polars keeps each type it has seen alive, with everything that the
type's module imports, and DuckDB reports leaks at exit if it is among them.
"""

from __future__ import annotations


class ArrowStream:
    """Rows behind Arrow's PyCapsule interface, for one reader."""

    def __init__(self, capsule: object) -> None:
        self._capsule = capsule

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._capsule
