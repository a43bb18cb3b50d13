"""Run pytest in a copy of the project, in processes that start with the libraries imported."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import resource
import shutil
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# Importing them takes longer than most tests.
_LIBRARIES = [
    "pytest", "_pytest.assertion.rewrite", "hypothesis.strategies", "duckdb", "numpy", "polars",
    "pyarrow.parquet", "rich.console", "typer.testing", "jinja2", "sqlalchemy",
]  # fmt: skip
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(_LIBRARIES)
UNFINISHED = -1  # the time was used up before all tests had run
_LONGEST_S = 60  # CPU time of a single test
# A process that sleeps uses no CPU time.
_WALL_PER_CPU = 6


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run of pytest ended."""

    code: int | None  # pytest's exit code, UNFINISHED, or None if a test does not end
    failed: str  # the test that failed, empty if none or at collection
    cpu_s: float
    output: str


class Tree:
    """A copy of the project.

    Args:
        directory: where to make it.
        samples: databases of the samples, which runs with `keep` share.
    """

    def __init__(self, directory: Path, samples: Path) -> None:
        self.directory = directory / "tree"
        self._scratch = directory
        self._samples = samples
        shutil.copytree(ROOT, self.directory, ignore=_left_out)

    def run(self, arguments: Sequence[str], budget_s: float, keep: bool = False) -> Outcome:
        """Run tests until the first fails.

        Args:
            arguments: pytest's.
            budget_s: CPU time after which no further test starts, seconds.
            keep: reuse databases of the samples; only without changes of how files are read.
        """
        packages = [str(self.directory / name) for name in ("pipeline", "collectors", "models")]
        corpus = os.environ.get("TBD_TRACE_CORPUS", ROOT.parent / "shared" / "traces")
        environment = {
            "PYTHONPATH": os.pathsep.join(packages),
            "TBD_TRACE_CORPUS": str(corpus),
            "TMPDIR": str(self._scratch),
        }
        if keep:
            environment["TBD_TRACE_TEST_SAMPLES"] = str(self._samples)
        log = self._scratch / "output"
        receiver, sender = _FORKS.Pipe(duplex=False)
        given = (self.directory, environment, packages, list(arguments), budget_s, log, sender)
        process = _FORKS.Process(target=_test, args=given)
        process.start()
        sender.close()
        process.join(_WALL_PER_CPU * (budget_s + _LONGEST_S))
        with contextlib.suppress(ProcessLookupError):  # also what the tests have started
            os.killpg(process.pid or 0, signal.SIGKILL)
        process.join()
        output = log.read_text(encoding="utf-8", errors="replace")
        with receiver, contextlib.suppress(EOFError):
            code, failed, cpu_s = receiver.recv()
            return Outcome(code, failed, cpu_s, output)
        return Outcome(None, "", budget_s + _LONGEST_S, output)


def _left_out(directory: str, names: list[str]) -> set[str]:
    # `make site` and `make demo` write into the root; a package has a directory `site`, too.
    made = {"demo-output", "site"} if Path(directory) == ROOT else set()
    return {name for name in names if name.startswith(".") or name in made | {"__pycache__"}}


class _Watch:
    # A plugin that notes the first failed test, and stops when the time is used up.

    def __init__(self, budget_s: float) -> None:
        self._budget_s = budget_s
        self.failed = ""
        self.is_over = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid

    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        if _cpu_s() > self._budget_s:
            self.is_over = True
            item.session.shouldstop = "the time is used up"


def _cpu_s() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def _test(  # noqa: PLR0917 the arguments of a process
    tree: Path,
    environment: dict[str, str],
    packages: list[str],
    arguments: list[str],
    budget_s: float,
    log: Path,
    result: Connection,
) -> None:
    os.setsid()
    os.chdir(tree)
    os.environ.update(environment)
    sys.path[:0] = [str(tree), *packages]
    limit = int(budget_s) + _LONGEST_S
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
    with log.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    watch = _Watch(budget_s)
    options = [
        *("-x", "-q", "-m", "not nightly", "--few-examples"),
        *("-p", "no:cacheprovider", "--hypothesis-seed=0"),
    ]
    code = int(pytest.main([*options, *arguments], plugins=[watch]))
    if watch.is_over and not watch.failed:
        code = UNFINISHED
    result.send((code, watch.failed, _cpu_s()))
    sys.stdout.flush()
    os._exit(0)  # threads of libraries do not delay the end
