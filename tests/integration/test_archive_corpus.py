"""Archives of real traces, moved away from their sources, answer what the database answered."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import all_answers
from corpus import corpus_file
from fast import nightly
from tbd_trace.api import Traces, open_archive, open_traces
from tbd_trace.archive.operations import create
from tbd_trace.archive.verify import problems
from tbd_trace.present import Format, render
from tbd_trace.query import Catalogue, Result
from tbd_trace.redact.tables import KINDS, Redaction
from tbd_trace.store import Database

pytestmark = pytest.mark.slow

# A training run, two processes that share correlation ids, counters, an nvprof timeline.
NAMES = (
    "nsys/NERSC_sc22-dl-tutorial__sample_nsys_profiles__4gpu_bucketcap100mb.qdrep.exp2022.4.sqlite",
    "nsys/GindaChen_nsys-ai__tests__fixtures__mfu_2gpu_after.sqlite",
    "nvprof/Tim-pijnacker_Thesis__results.nvprof",
)


def answers(traces: Traces, names: list[str]) -> dict[str, bytes]:
    """Return what each query answers, as CSV, or why it does not."""
    found = all_answers.answers(traces.database, names, traces.trace_ids)
    return {
        name: render(result.frame, Format.CSV)
        if isinstance(result, Result)
        else str(result).encode()
        for name, result in found.items()
    }


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Database:
    place = tmp_path_factory.mktemp("real")
    sources = [Path(shutil.copy(corpus_file(name), place)) for name in NAMES]
    database = Database(place / "real.duckdb")
    database.ingest(sources)
    for source in sources:
        source.unlink()
    return database


@pytest.mark.parametrize(
    ("form", "keep", "one_in"),
    [
        pytest.param("moved", frozenset(KINDS), 1, id="directory-whole", marks=nightly),
        pytest.param("moved", frozenset(), 1, id="directory-redacted", marks=nightly),
        pytest.param("moved.tbd.zip", frozenset(KINDS), 1, id="zip-whole", marks=nightly),
        pytest.param("moved.tbd.zip", frozenset(), 1, id="zip-redacted-all", marks=nightly),
        pytest.param("moved.tbd.zip", frozenset(), 4, id="zip-redacted"),
    ],
)
def test_every_query_answers_as_the_database_did(
    database: Database, elsewhere: Path, form: str, keep: frozenset[str], one_in: int
) -> None:
    made = elsewhere / "made" / form
    made.parent.mkdir()
    create(database, database.trace_ids(), made, redaction=Redaction(keep))
    moved = elsewhere / "another place" / form
    moved.parent.mkdir()
    made.rename(moved)
    assert not list(problems(open_archive(str(moved))))
    names = [query.name for query in Catalogue().metrics()][::one_in]
    expected = answers(Traces(database, database.trace_ids()), names)
    found = answers(open_traces(moved), names)
    different = [name for name in expected if found[name] != expected[name]]
    assert not different
