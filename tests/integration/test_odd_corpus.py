"""Real files that are empty, partial, broken or no profile: each is reported as what it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from corpus import corpus_file, corpus_files, relative
from expectations import expectations
from fast import one_in
from program import Outcome, complaint, invoke

KNOWN = expectations()


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("odd") / "x.duckdb"


@pytest.mark.slow
@pytest.mark.parametrize("path", one_in(8, corpus_files("odd/*"), then_one_in=5))
def test_odd_files(path: Path, db: Path) -> None:
    """A file that cannot be read is one line; one without kernels has a note that says so."""
    outcome = invoke("ingest", path, "--db", db)
    expected = KNOWN.get(relative(path))
    says = expected.says if expected else ""
    if not (expected.reads if expected else outcome.code == 0):
        assert complaint(outcome, 1).startswith(f"error: {path}: {says}")
        return
    assert outcome.code == 0, outcome
    kernels, notes = ingested(outcome, path)
    assert any(says in note for note in notes) or not says
    if kernels:
        return
    assert notes, "nothing says why no kernel was recorded"
    trace = outcome.out.split()[0]
    for name in ("kernel_summary", "fp32_util"):
        line = complaint(invoke("query", name, trace, "--db", db), 3)
        assert f"{name} needs single kernels, and " in line
        assert "; profile " in line


def ingested(outcome: Outcome, path: Path) -> tuple[int, list[str]]:
    """Return how many kernels an ingested file holds, and the notes about it."""
    [line] = outcome.out.splitlines()
    notes = outcome.err.splitlines()
    assert all(note.startswith(f"note: {path.name}: ") for note in notes)
    return int(line.split()[2].replace(",", "")), notes


def test_a_whole_profile_among_odd_files(corpus: Path, db: Path) -> None:
    path = corpus / "odd" / "GindaChen_nsys-ai__tests__fixtures__healthy_1pct.sqlite"
    assert ingested(invoke("ingest", path, "--db", db), path) == (400, [])


@pytest.mark.slow
def test_a_heap_of_odd_files_at_once(tmp_path: Path) -> None:
    """Each bad one is reported once, the good one is ingested, and the exit code says 'not all'."""
    files = {name: corpus_file(name) for name in KNOWN if name.startswith("odd/")}
    refused = [path for name, path in files.items() if not KNOWN[name].reads]
    good = [files[name] for name in files if KNOWN[name].reads and not KNOWN[name].says]
    outcome = invoke("ingest", *refused[:4], *good, *refused[4:], "--db", tmp_path / "x.duckdb")
    errors = [line for line in outcome.err.splitlines() if line.startswith("error: ")]
    assert outcome.code == 1
    assert [line.split(": ")[1] for line in errors] == [str(file) for file in refused]
    assert len(outcome.out.splitlines()) == len(good) == 1
