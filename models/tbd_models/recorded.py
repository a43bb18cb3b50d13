"""Results of recording a workload's memory."""

from __future__ import annotations

from typing import Any, NamedTuple


class Recorded(NamedTuple):
    """Descriptions for the report and for layers.json."""

    description: dict[str, Any]
    layers: list[dict[str, Any]]
