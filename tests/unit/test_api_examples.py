"""The examples in the docstrings of the public API give what they print."""

from __future__ import annotations

import doctest
from importlib import import_module

import pytest

import tbd_trace
from corpus import ROOT

MODULES = ("tbd_trace", "tbd_trace.api", "tbd_trace.query.result")


@pytest.mark.slow
@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    found = doctest.testmod(import_module(name), extraglobs={"tbd_trace": tbd_trace})
    assert found.failed == 0


def test_each_way_to_ask_has_an_example() -> None:
    found = {
        test.name
        for name in MODULES
        for test in doctest.DocTestFinder(exclude_empty=True).find(import_module(name))
        if test.examples
    }
    assert {
        "tbd_trace",
        "tbd_trace.open",
        "tbd_trace.api.Traces.query",
        "tbd_trace.api.Traces.sql",
        "tbd_trace.api.Traces.connect",
        "tbd_trace.api.Traces.why",
        "tbd_trace.api.Traces.check",
        "tbd_trace.api.Traces.diff",
        "tbd_trace.api.Traces.plot",
    } <= found
