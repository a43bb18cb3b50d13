"""Compute each answer once, for tests of its output."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

from tbd_trace.api import Traces

_answers: dict[str, Any] = {}


def ask_once(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """Cache the results of a function by its traces and arguments.

    Args:
        monkeypatch: restores the function after the test.
        place: module and name of the function; tests may not change its results.
    """
    module, _, name = place.rpartition(".")
    function: Callable[..., Any] = getattr(import_module(module), name)

    def asked(*arguments: Any, **options: Any) -> Any:
        key = repr((place, [_key(each) for each in arguments], sorted(options.items())))
        if key not in _answers:
            _answers[key] = function(*arguments, **options)
        return _answers[key]

    monkeypatch.setattr(place, asked)


def _key(argument: Any) -> Any:
    if not isinstance(argument, Traces):
        return argument
    names = argument.names()
    return argument.database.name, [(each, names[each]) for each in argument.trace_ids]
