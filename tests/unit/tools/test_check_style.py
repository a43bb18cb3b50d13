"""Rows of Markdown tables have the cells of their heads."""

from __future__ import annotations

import pytest

from check_style import odd_rows

HEAD = "| a | b |\n| --- | --- |\n"


@pytest.mark.parametrize(
    "rows",
    [
        "| 1 | 2 |",
        r"| `x\|y` | p\|q |",
        "|1|2|",
        "  | 1 | 2 |  ",
        "| 1 | |",
        "```\n| 1 | 2 | 3 |\n```",
        "~~~\n| 1 |\n~~~",
        "text | with | bars | in it",
        "\n| a | b | c |\n| --- | --- | --- |\n| 1 | 2 | 3 |",
    ],
)
def test_rows_like_their_head_pass(rows: str) -> None:
    assert not list(odd_rows(HEAD + rows + "\n"))


@pytest.mark.parametrize(
    ("row", "cells"), [("| `x|y` | z |", 3), ("| 1 |", 1), (r"| 1 | 2 | 3\| |", 3)]
)
def test_rows_of_other_lengths_are_found(row: str, cells: int) -> None:
    assert list(odd_rows(f"# T\n\n{HEAD}| 1 | 2 |\n{row}\n")) == [(6, cells, 2)]


def test_lines_are_counted_through_code() -> None:
    assert list(odd_rows(f"```sql\nSELECT 1\n```\n{HEAD}| 1 |\n")) == [(6, 1, 2)]
