"""pytest plugin: note which lines and SQL files each test runs, and how long it takes.

Lines of programs that a test starts count as the test's.

``pytest -p mutants_plugin --uses FILE`` writes JSON, ``{test: {"seconds": s, "files": {path:
lines}}}``, with paths relative to the project. A SQL file has no lines: it runs as a whole.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import coverage
import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("pipeline", "collectors")
SOURCES = [str(ROOT / name) for name in PACKAGES]
_TEST = "TBD_TRACE_RECORDED_TEST"


class Recorder:
    """Records the tests of one run of pytest.

    Args:
        target: the JSON file to write.
    """

    def __init__(self, target: Path) -> None:
        self._target = target
        self._test = ""
        self._seconds: dict[str, float] = defaultdict(float)
        self._sql: dict[str, set[Path]] = defaultdict(set)
        self._coverage = coverage.Coverage(data_file=None, config_file=False, source=SOURCES)
        self._coverage.start()
        self._started = tempfile.TemporaryDirectory()  # of programs that a test starts
        os.environ["COVERAGE_PROCESS_START"] = str(_write_settings(Path(self._started.name)))

    def watch_queries(self) -> None:
        """Note each access to the text of a query, and each SQL file that is read."""
        from tbd_trace.query.header import Query  # noqa: PLC0415 measured from its import on

        def get(query: Query, name: str) -> Any:
            if name == "sql":
                self._sql[self._test].add(object.__getattribute__(query, "path"))
            return object.__getattribute__(query, name)

        def read_text(path: Path, *options: Any, **named: Any) -> str:
            # A header is read to list the queries; the text of a query counts where it is used.
            if path.suffix == ".sql" and sys._getframe(1).f_code.co_name != "parse_query":
                self._sql[self._test].add(path)
            return original(path, *options, **named)

        original = Path.read_text
        Query.__getattribute__ = get  # type: ignore[method-assign, assignment]
        Path.read_text = read_text  # type: ignore[method-assign, assignment]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Attribute what runs to the test."""
        self._test = item.nodeid
        self._coverage.switch_context(item.nodeid)
        os.environ[_TEST] = item.nodeid
        _forget_texts()
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the time of a test's set-up, call and tear-down."""
        self._seconds[report.nodeid] += report.duration

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Write the file, if all tests passed."""
        self._coverage.stop()
        del os.environ["COVERAGE_PROCESS_START"]
        if exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            return
        tests: dict[str, Any] = {
            test: {"seconds": round(seconds, 3), "files": {}}
            for test, seconds in self._seconds.items()
        }
        lines: dict[tuple[str, str], set[int]] = defaultdict(set)  # by test and file
        for data in (self._coverage.get_data(), *_read(Path(self._started.name))):
            for name in data.measured_files():
                for line, contexts in data.contexts_by_lineno(name).items():
                    for test in contexts:
                        lines[test, name].add(line)
        for (test, name), line_numbers in lines.items():
            if test in tests:
                tests[test]["files"][_relative(Path(name))] = sorted(line_numbers)
        for test in self._sql.keys() & tests.keys():
            inside = (path for path in self._sql[test] if path.is_relative_to(ROOT))
            tests[test]["files"].update((_relative(path), []) for path in sorted(inside))
        self._target.write_text(json.dumps(tests), encoding="utf-8")


def _write_settings(directory: Path) -> Path:
    # Each program writes a file to the directory, with the test that the environment names.
    settings = directory / "settings"
    settings.write_text(
        f"""
        [run]
        source = {",".join(SOURCES)}
        data_file = {directory}/lines
        parallel = true
        context = ${{{_TEST}}}
        sigterm = true
        patch = _exit
        """,
        encoding="utf-8",
    )
    return settings


def _read(directory: Path) -> Iterator[coverage.CoverageData]:
    for file in directory.glob("lines.*"):
        data = coverage.CoverageData(str(file))
        try:
            data.read()
        except coverage.CoverageException:
            continue  # of a program that was killed
        yield data


def _relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _forget_texts() -> None:
    # Sources keep the texts of their SQL files; each test must read them itself.
    for name, module in list(sys.modules.items()):
        if name.startswith("tbd_trace.sources."):
            for value in vars(module).values():
                if isinstance(value, functools._lru_cache_wrapper):
                    value.cache_clear()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that names the file to write."""
    parser.addoption("--uses", type=Path, help="file of the lines that each test runs")


def pytest_configure(config: pytest.Config) -> None:
    """Record if asked."""
    if target := config.getoption("--uses"):
        recorder = Recorder(target)
        config.pluginmanager.register(recorder)
        recorder.watch_queries()
