"""Each table has one place on the pages."""

from __future__ import annotations

import pytest

from reference_pages.topics import address, topics


@pytest.mark.parametrize(
    ("table", "page"),
    [
        ("kernel", "gpu.md"),
        ("annotation", "annotations.md"),  # its folders have two names
        ("nvtx_range", "annotations.md"),
        ("_lifetime", "memory.md"),
        ("memory_event", "memory.md"),
        ("kernel_classes", "data.md"),
    ],
)
def test_tables_are_on_the_page_of_their_topic(table: str, page: str) -> None:
    assert address(table) == f"{page}#{table}"


def test_topics_separate_canonical_derived_and_internal_tables() -> None:
    (memory,) = [topic for topic in topics() if topic.page == "memory.md"]
    assert "memory_event" in [table.name for table in memory.canonical]
    assert "allocation" in [query.name for query in memory.derived]
    assert "_lifetime" in [query.name for query in memory.internal]
