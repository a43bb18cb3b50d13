"""Divide the slow tests among runs: with ``--turn K/N``, each of N runs takes one module in N.

``.ci/run`` counts its turns by the commits. Modules stay whole, because their tests share fixtures;
tests that are not slow take part in every turn.
"""

from __future__ import annotations

import pytest


def add_options(parser: pytest.Parser) -> None:
    """Add the option; conftest.py calls it."""
    group = parser.getgroup("tbd-trace")
    group.addoption(
        "--turn", metavar="K/N", help="slow tests of every Nth module, from the (K modulo N)th on"
    )


def leave_out_others(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the slow tests of other turns; conftest.py calls it once tests are marked.

    Raises:
        pytest.UsageError: the option is not K/N.
    """
    if config.option.turn is None:
        return
    try:
        turn, of = map(int, config.option.turn.split("/"))
        turn %= of
    except (ValueError, ZeroDivisionError):
        raise pytest.UsageError(f"--turn {config.option.turn}: not K/N, such as 1/2") from None
    own = set(sorted({_module(item) for item in items if _is_slow(item)})[turn::of])

    def takes_part(item: pytest.Item) -> bool:
        return not _is_slow(item) or _module(item) in own

    config.hook.pytest_deselected(items=[item for item in items if not takes_part(item)])
    items[:] = [item for item in items if takes_part(item)]


def _module(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def _is_slow(item: pytest.Item) -> bool:
    return item.get_closest_marker("slow") is not None
