"""Divide the tables among pages: one per topic, as the folders of queries are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tbd_trace import resources
from tbd_trace.model.canonical_tables import CanonicalTable, canonical_tables
from tbd_trace.query import Query
from tbd_trace.query.catalogue import derived_relation

DATA = "data.md"
_SAME_TOPIC = {"annotation": "annotations"}  # folders of queries/canonical and queries/derive
_TOPICS = {  # title and contents, in the order in which queries build on each other
    "capture": ("Traces", "Files that were read, and the layers that `layers.json` describes."),
    "gpu": ("GPU work", "Devices, and their kernels, copies, waits, counters and samples."),
    "host": ("Host", "Processes, threads, API calls and CPU samples."),
    "annotations": (
        "Annotations",
        "Ranges and marks on host threads: NVTX, operators and modules of PyTorch, frames of "
        "Python.",
    ),
    "attribution": ("Attribution", "Launch, ranges, layer and phase of each GPU operation."),
    "iterations": ("Iterations", "Steps of training, how they are recognized, their statistics."),
    "timeline": ("Timeline", "Windows of the analysis, and busy and idle time of devices."),
    "replay": ("Replay", "Causes of the time of a step, and its replay after changes."),
    "layers": ("Layers", "Type and times of each layer."),
    "counters": ("Counters", "Occupancy, utilization, FLOP and memory traffic of kernels."),
    "memory": ("Memory", "Allocations, segments and peaks."),
    "network": ("Network", "Collectives, ranks of a job, links, and prediction for more GPUs."),
    "suite": ("Suite", "Captured runs, for comparisons and batch-size sweeps."),
}


@dataclass(frozen=True, slots=True)
class Topic:
    """One page of tables."""

    page: str
    title: str
    contents: str
    canonical: list[CanonicalTable]
    derived: list[Query]
    internal: list[Query]  # derived relations that only tbd-trace uses


def topics() -> list[Topic]:
    """Return the topics in order, each with its tables sorted by name."""
    canonical, derived = canonical_tables(), resources.sql_files("derive")
    ordered = []
    for name, (title, contents) in _TOPICS.items():
        page = f"{name}.md"
        relations = [derived_relation(each) for each in derived if _pages()[each] == page]
        ordered.append(
            Topic(
                page,
                title,
                contents,
                [canonical[each] for each in sorted(canonical) if _pages()[each] == page],
                [query for query in relations if not query.name.startswith("_")],
                [query for query in relations if query.name.startswith("_")],
            )
        )
    return ordered


def data_files() -> list[Path]:
    """Return the CSV files that queries can read as tables."""
    return sorted(resources.data().glob("*.csv"))


def address(table: str) -> str:
    """Return the address of a table's section in the folder of the pages."""
    return f"{_pages()[table]}#{table}"


@cache
def _pages() -> dict[str, str]:
    pages = {path.stem: DATA for path in data_files()}
    for kind in ("canonical", "derive"):
        for name, path in resources.sql_files(kind).items():
            topic = _SAME_TOPIC.get(path.parent.name, path.parent.name)
            if topic not in _TOPICS:
                raise ValueError(f"{path}: topic without a title; add it to _TOPICS")
            pages[name] = f"{topic}.md"
    return pages
