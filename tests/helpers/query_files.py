"""Paths of the query files of the package, to parametrise tests.

Tests are collected without reading a header, so that a file with an invalid header fails the test
of that file and does not stop the collection of a whole module.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tbd_trace import resources
from tbd_trace.errors import UsageError

METRICS = sorted((resources.queries() / "metrics").rglob("*.sql"))
CHECKS = sorted((resources.queries() / "checks").rglob("*.sql"))
DERIVED = sorted((resources.queries() / "derive").rglob("*.sql"))
MEMORY_METRICS = {path.stem for path in METRICS if path.parent.name == "memory"}
"""Metrics that the memory sample answers."""
MEMORY_CHECKS = {
    "batch_could_grow", "feature_maps_dominate_memory", "fragmented_memory", "growing_memory",
    "optimizer_temporaries_set_peak",
}  # fmt: skip
"""Checks that the memory sample answers."""
TORCH_METRICS = {"mfu", "module_summary", "op_summary", "step_work"}
"""Metrics that the sample of torch.profiler answers."""
NETWORK = {path.stem for path in METRICS if path.parent.name == "network"}
NOT_IN_SAMPLES = {
    "memory_untracked", "sampled_util", "untracked_memory",
    *NETWORK - {"comm_overhead", "dp_speedup", "min_bandwidth"},
}  # fmt: skip
"""Queries of data that no sample holds."""
OF_JOBS = "measured"
"""The way to group that only several ranks answer; see `test_layer_communication.py`."""
REPLAYED = {"avoidable_cause", "step_timeline", "whatif", "why"}
"""Queries above relations that Python computes, which a DuckDB shell lacks."""
NOT_WORKED = REPLAYED - {"step_timeline"}
"""Queries without worked rows; `test_golden_causes.py` works out the numbers of `why` and `whatif`,
`tests/unit/why/test_relations.py` has the answers."""
METRIC_NAMES = [path.stem for path in METRICS]


def each_file(paths: list[Path]) -> pytest.MarkDecorator:
    """Parametrise a test by ``path``; the test ids are the names of the queries."""
    return pytest.mark.parametrize("path", paths, ids=lambda path: path.stem)


@contextmanager
def valid_headers() -> Iterator[None]:
    """Skip a test that reads an invalid header; ``test_header_is_valid`` fails for that file."""
    try:
        yield
    except UsageError as error:
        pytest.skip(str(error))
