"""Names of causes, in ``data/step_causes.csv``."""

from __future__ import annotations

from functools import cache

from tbd_trace import resources


@cache
def causes_by_name() -> dict[str, dict[str, str]]:
    """Return the rows of ``data/step_causes.csv`` by cause."""
    return {row["cause"]: row for row in resources.data_rows("step_causes")}


def cause_names() -> list[str]:
    """Return the names of the causes."""
    return list(causes_by_name())


def rules(cause: str) -> list[str]:
    """Return the rules of ``tbd-trace check`` whose findings are evidence for a cause."""
    return causes_by_name()[cause]["rules"].split()


def title(cause: str) -> str:
    """Return a cause in words."""
    return causes_by_name()[cause]["title"]
