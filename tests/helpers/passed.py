"""Run the tests that an earlier run left out, and leave out those that passed there.

``.ci/run`` runs the fast tests as someone without traces and profilers does, then all others. The
first run writes the ids of the tests that passed (``--passed-to FILE``), the second leaves them out
(``--except-passed FILE``). Property tests run twice: they have fewer examples in the fast suite.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import is_hypothesis_test


def add_options(parser: pytest.Parser) -> None:
    """Add the two options; conftest.py calls it."""
    group = parser.getgroup("tbd-trace")
    group.addoption("--passed-to", type=Path, metavar="FILE", help="write ids of passed tests")
    group.addoption(
        "--except-passed", type=Path, metavar="FILE", help="leave out the tests of --passed-to"
    )


def configure(config: pytest.Config) -> None:
    """Register what the options ask for; conftest.py calls it."""
    is_worker = hasattr(config, "workerinput")
    if config.option.passed_to and not is_worker:
        config.pluginmanager.register(_Writer(config.option.passed_to))
    if config.option.except_passed:
        config.pluginmanager.register(_Filter(config.option.except_passed))


class _Writer:
    def __init__(self, file: Path) -> None:
        self._file = file
        self._passed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self._passed.add(report.nodeid)
        elif report.failed:  # also in its teardown
            self._passed.discard(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self._file.write_text("\n".join(sorted(self._passed)), encoding="utf-8")


class _Filter:
    def __init__(self, file: Path) -> None:
        self._passed = set(file.read_text(encoding="utf-8").splitlines())

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        def again(item: pytest.Item) -> bool:
            return item.nodeid not in self._passed or is_hypothesis_test(getattr(item, "obj", None))

        left_out = [item for item in items if not again(item)]
        items[:] = [item for item in items if again(item)]
        config.hook.pytest_deselected(items=left_out)
