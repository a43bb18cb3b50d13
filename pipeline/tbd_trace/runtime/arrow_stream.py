"""Arrow streams on their way from DuckDB to polars.

In a file that imports nothing: polars never forgets a type that it has met, nor, with it, what the
type's module imports. DuckDB, if it is among that, complains of leaks when the process ends.
"""

from __future__ import annotations


class ArrowStream:
    """Rows as Arrow's PyCapsule interface hands them on, once.

    Args:
        capsule: the stream.
    """

    def __init__(self, capsule: object) -> None:
        self._capsule = capsule

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the stream."""
        return self._capsule
