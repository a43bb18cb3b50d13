"""Parts of the reference pages."""

from __future__ import annotations

from reference_pages.markdown import plain, table


def test_bars_are_escaped_in_text_and_code() -> None:
    assert table(["a", "b|c"], [["`x|y`", "p|q"]]) == [
        r"| a | b\|c |",
        "| --- | --- |",
        r"| `x\|y` | p\|q |",
    ]


def test_text_is_one_line_without_tags() -> None:
    assert plain("a <b>\n  c < d </e>") == r"a \<b> c < d \</e>"
