"""The sample of torch.profiler: what its generator writes, and what its README says."""

from __future__ import annotations

import json
import random
import re
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from corpus import ROOT
from make_torch_sample import TRACE, main
from tbd_trace.query import Catalogue, execute, sql
from tbd_trace.store import Database

SAMPLES = ROOT / "data" / "samples"


def test_the_sample_is_what_its_generator_writes(tmp_path: Path) -> None:
    main(["--output", str(tmp_path)])
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    sample = {path.name: path.read_bytes() for path in (SAMPLES / "synthetic_mlp").iterdir()}
    assert written == sample
    assert sum(map(len, sample.values())) < 100_000


def test_modules_take_four_and_a_half_times_the_base_of_the_readme(torch_sample: Database) -> None:
    text = (SAMPLES / "README.md").read_text(encoding="utf-8")
    table = text.split("\n# The sample of torch.profiler\n")[1]
    expected: dict[str, dict[str, float]] = defaultdict(lambda: {"forward": 0, "backward": 0})
    for module, which, base in re.findall(
        r"^\| (MLP_0/\w+) \| (\w+) \| .* \| ([\d,]+) \|$", table, re.M
    ):
        for place in ("MLP_0", module):
            expected[place][which] += 4.5 * int(base.replace(",", ""))
    frame = execute(torch_sample, Catalogue().get("module_summary")).frame
    assert {
        found["module"]: {"forward": found["forward_ns"], "backward": found["backward_ns"]}
        for found in frame.to_dicts()
    } == expected


def test_every_kind_of_event_is_in_the_sample(torch_sample: Database) -> None:
    tables = ("kernel", "memcpy", "api_call", "operator_input", "memory_event", "device", "thread")
    for table in tables:
        assert sql(torch_sample, f"SELECT count(*) FROM {table}").item() > 0
    assert sql(torch_sample, "SELECT tool, kind FROM trace").rows() == [("torch", "timeline")]


def shuffled(events: list[Any]) -> list[Any]:
    random.Random(0).shuffle(events)
    return events


@pytest.mark.slow
@pytest.mark.parametrize("change", [shuffled, lambda events: events + events])
def test_order_and_repeats_of_events_change_no_answer(
    torch_sample: Database, tmp_path: Path, change: Callable[[list[Any]], list[Any]]
) -> None:
    document = json.loads((SAMPLES / "synthetic_mlp" / TRACE).read_text(encoding="utf-8"))
    document["traceEvents"] = change(document["traceEvents"])
    path = tmp_path / TRACE
    path.write_text(json.dumps(document), encoding="utf-8")
    database = Database(tmp_path / "changed.duckdb")
    (report,) = database.ingest([path])
    is_repeated = any(note.startswith("operators and ranges that stand") for note in report.notes)
    assert is_repeated == (change is not shuffled)
    for name in ("op_summary", "module_summary", "iteration_summary"):
        query = Catalogue().get(name)
        frames = [execute(each, query).frame for each in (torch_sample, database)]
        expected, found = (frame.drop("trace_id").rows() for frame in frames)
        assert found == expected
