"""Work out each answer once, where tests are about what is made of it."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

from tbd_trace.api import Traces

_answers: dict[str, Any] = {}


def ask_once(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """Let a function of traces return again what it did for equal traces and arguments.

    Args:
        monkeypatch: puts the function back.
        place: module and name of the function; nothing may change its answers.
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
