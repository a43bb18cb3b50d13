"""Tests of which repeats the suites leave out."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import fast
from corpus import ROOT

NAMED = re.compile(r"nightly\(\s*covered_by=\"([^\"]*)\"")


@cache
def decorators(path: Path) -> dict[str, str]:
    """Return the decorators of each test of a module, and its own marks, as source."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    marks = [
        ast.unparse(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
    ]
    return {
        node.name: " ".join([*marks, *map(ast.unparse, node.decorator_list)])
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    }


def test_what_a_nightly_test_names_runs_more_often() -> None:
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for name in NAMED.findall(path.read_text(encoding="utf-8")):
            module, _, test = name.partition("::")
            marks = decorators(ROOT / module).get(test) if (ROOT / module).is_file() else None
            assert marks is not None, f"{path}: covered_by names {name}, which does not exist"
            assert "nightly" not in marks, f"{path}: {name} is nightly, too"


@pytest.mark.parametrize(
    ("share", "made"),
    [(fast.FEW, [20, 2, 2]), (fast.HALF, [50, 6, 3]), (fast.ALL, [100, 10, 3])],
)
def test_examples(share: int, made: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast, "_share_of_examples", share)
    assert [fast.examples(count) for count in (100, 10, 3)] == made


def test_all_but_the_first_of_each_group_are_slow_and_most_of_these_nightly() -> None:
    marked = fast.one_in(4, range(8), then_one_in=3)
    names = [{mark.name for mark in getattr(one, "marks", ())} for one in marked]
    slow, nightly = {"slow"}, {"slow", "nightly"}
    assert names == [set(), slow, nightly, nightly, set(), slow, nightly, nightly]
