"""Programs of traces, read once for all relations of a replay."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import duckdb
import pytest

from tbd_trace.why import processes, relations


@contextmanager
def programs_read_once() -> Iterator[None]:
    """Read the programs of a connection once; its relations stay the same.

    Each relation of a replay reads them, which takes longer than the replay of short traces.
    """
    read = processes.programs

    @cache
    def programs(
        connection: duckdb.DuckDBPyConnection, *, without_kernels: bool = False
    ) -> list[processes.Process]:
        return list(read(connection, without_kernels=without_kernels))

    with pytest.MonkeyPatch.context() as patch:
        for module in (processes, relations):
            patch.setattr(module, "programs", programs)
        yield
