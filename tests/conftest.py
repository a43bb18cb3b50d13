"""Fixtures for all tests."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import duckdb
import pytest
from hypothesis import is_hypothesis_test, settings

import fast
import passed
import skips
import turns
from corpus import ROOT, corpus_folder
from parameters import Parameters
from requirements import REQUIREMENTS, first_reason
from tbd_trace.store import Database

# Frameworks in parallel tests compete for the processors: their threads wait for each other.
for _variable in ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS"):
    os.environ.setdefault(_variable, "1")
# Property tests have no deadline: on a loaded machine any of them can exceed 200 ms.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    fast.add_options(parser)
    passed.add_options(parser)
    turns.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    fast.configure(config)
    passed.configure(config)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark nightly tests and tests on real traces as slow, for `make test`.

    Mark property tests, too, and those of tools.
    """
    for item in items:
        if is_hypothesis_test(getattr(item, "obj", None)):
            item.add_marker("property")
        # So that `make test` runs the same tests with and without real traces.
        if item.get_closest_marker("nightly") is not None or _reads_real_traces(item):
            item.add_marker("slow")
        if any(REQUIREMENTS[name].is_tool for name in _needs(item)):
            item.add_marker("tool")
    turns.leave_out_others(config, items)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test before its fixtures are set up if something that it needs is missing."""
    if reason := first_reason(_needs(item)):
        item.add_marker(pytest.mark.skip(reason=reason))


def _reads_real_traces(item: pytest.Item) -> bool:
    # Parameters are made of the files of the corpus, or of reference tables.
    return "corpus" in _needs(item) or any(
        isinstance(values, Parameters)
        for mark in item.iter_markers("parametrize")
        for values in mark.args[1:]
    )


def _needs(item: pytest.Item) -> tuple[str, ...]:
    return tuple(name for mark in item.iter_markers("needs") for name in mark.args)


@pytest.fixture(scope="session")
def session_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory that parallel workers share."""
    base = tmp_path_factory.getbasetemp()
    # pytest-xdist gives each worker a directory inside the session's.
    return base.parent if base.name.startswith("popen-") else base


@pytest.fixture(scope="session", autouse=True)
def _cache_of_the_session(session_directory: Path) -> None:
    """Keep tests away from the cache of the user; parallel workers share one."""
    os.environ["TBD_TRACE_CACHE"] = str(session_directory / "cache")


@pytest.fixture
def corpus() -> Path:
    """Return the directory of real traces, or skip."""
    return corpus_folder()


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """Return an in-memory DuckDB connection."""
    with duckdb.connect() as opened:
        yield opened


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run in an empty directory, with a cache of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TBD_TRACE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("TBD_TRACE_DB", raising=False)
    return tmp_path


@pytest.fixture(scope="session")
def _cache_of_the_sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def sample_cache(
    elsewhere: Path, _cache_of_the_sample: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Run in an empty directory; tests with this fixture share a cache and ingest a file once."""
    monkeypatch.setenv("TBD_TRACE_CACHE", str(_cache_of_the_sample))
    return elsewhere


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Let PyTorch compute on one thread, beside tests that run at the same time."""
    torch = pytest.importorskip("torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def sample_database(tmp_path_factory: pytest.TempPathFactory) -> Database:
    """Return a database that holds the sample capture; nothing may be added or removed."""
    return _database_of("synthetic_cnn", tmp_path_factory)


@pytest.fixture(scope="session")
def memory_sample(tmp_path_factory: pytest.TempPathFactory) -> Database:
    """Return a database that holds the memory sample; nothing may be added or removed."""
    return _database_of("synthetic_memory", tmp_path_factory)


@pytest.fixture(scope="session")
def torch_sample(tmp_path_factory: pytest.TempPathFactory) -> Database:
    """Return a database that holds the torch.profiler sample; nothing may be added or removed."""
    return _database_of("synthetic_mlp", tmp_path_factory)


def _database_of(sample: str, tmp_path_factory: pytest.TempPathFactory) -> Database:
    # tools/mutants.py runs many sessions, and keeps the databases of the samples.
    kept = os.environ.get("TBD_TRACE_TEST_SAMPLES")
    folder = Path(kept) / sample if kept else tmp_path_factory.mktemp(sample)
    folder.mkdir(parents=True, exist_ok=True)
    database = Database(folder / f"{sample}.duckdb")
    database.ingest([ROOT / "data" / "samples" / sample])
    return database


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail tests that must not skip."""
    report = yield
    skips.fail_if_not_allowed(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Fail modules that must not skip."""
    report = yield
    skips.fail_if_not_allowed(report)
    return report
