"""Advice on what to collect, as the headers of tables and relations declare it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Advice:
    """How to get a table or relation that a trace lacks."""

    missing: str  # the end of a sentence that begins with the query's name: ``needs …; collect …``
    # name of the rows where a timeline without GPU work lacks them; empty otherwise
    gpu_work: str = ""
    # name of the quantity where the counters of a trace do not include it; empty otherwise
    counters: str = ""
    # True if files of counters or totals never hold it, whatever is counted
    timeline_only: bool = False
    # the reason and the action where a timeline has these rows and no kernels; empty otherwise
    without_kernels: str = ""
    # the command for a timeline with these rows and no GPU operations; empty otherwise
    without_gpu: str = ""
    # what takes the place of ``missing`` for timelines of a tool
    by_tool: Mapping[str, str] = field(default_factory=dict)


def parse_advice(header: Mapping[str, Any]) -> Advice:
    """Return the advice of a header; keys beside those of :class:`Advice` are names of tools.

    Raises:
        KeyError: ``missing`` is missing.
    """
    texts: dict[str, Any] = {
        key: " ".join(value.split()) if isinstance(value, str) else value
        for key, value in header.items()
    }
    known = ("missing", "gpu_work", "counters", "timeline_only", "without_kernels", "without_gpu")
    return Advice(
        missing=texts["missing"],
        gpu_work=texts.get("gpu_work", ""),
        counters=texts.get("counters", ""),
        timeline_only=texts.get("timeline_only", False),
        without_kernels=texts.get("without_kernels", ""),
        without_gpu=texts.get("without_gpu", ""),
        by_tool={key: text for key, text in texts.items() if key not in known},
    )
