"""Format an evaluation as text: findings in full, other verdicts in one or two lines each."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from tbd_trace.analysis.checks.evaluation import SEVERITIES
from tbd_trace.present import printable

WIDTH = 100
"""Default width of the text in columns."""

_LEAST_WIDTH = 60
_INDENT = 9  # columns of the severity; the reason and advice of a finding are indented by it
_RULE = 7  # columns of a rule id and a space
_NAMES_SHOWN = 2  # traces named in a line that holds for several
_NO_BREAK = "\N{NO-BREAK SPACE}"
_WITHOUT_DATA = "not evaluable"
_HEADINGS = {_WITHOUT_DATA: "Not evaluable", "pass": "Passed"}


def render(
    frame: pl.DataFrame,
    names: Mapping[str, str],
    width: int = WIDTH,
    *,
    verbose: bool = False,
    every: bool = True,
) -> str:
    """Format an evaluation as text.

    Args:
        frame: rows of :func:`tbd_trace.analysis.checks.evaluate`.
        names: names of the traces by id; shown if there are several.
        width: width in columns, at least 60.
        verbose: show the data to collect for rules that are not evaluable.
        every: list the rules that are not evaluable; otherwise their number is shown.
    """
    width = max(width, _LEAST_WIDTH)
    rows = list(frame.iter_rows(named=True))
    shown = names if len(names) > 1 else {}
    blocks = [_finding(row, shown, width) for row in rows if row["verdict"] == "finding"]
    for verdict, heading in _HEADINGS.items():
        if verdict == _WITHOUT_DATA and not (every or verbose):
            blocks += _number_without_data(rows)
            continue
        groups = _grouped([row for row in rows if row["verdict"] == verdict], shown)
        entries = [_entry(group, width, verbose) for group in groups]
        if entries:
            blocks.append("\n".join([heading, *entries]))
    return "\n\n".join([*blocks, summary(frame)]) + "\n"


def _number_without_data(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    rules = {row["rule"] for row in rows if row["verdict"] == _WITHOUT_DATA}
    if not rules:
        return []
    return [f"{len(rules)} rule{'s need' if len(rules) > 1 else ' needs'} more data (--all)"]


def summary(frame: pl.DataFrame) -> str:
    """Return the numbers of findings, passed and not evaluable rows in one line."""
    verdicts = Counter(frame["verdict"].to_list())
    count = Counter(frame["severity"].drop_nulls().to_list())
    kinds = ", ".join(
        f"{count[severity]} {severity}{'s' if count[severity] > 1 and severity != 'severe' else ''}"
        for severity in reversed(SEVERITIES)
        if count[severity]
    )
    findings = f"{verdicts['finding']} finding{'' if verdicts['finding'] == 1 else 's'}"
    return (
        f"{findings}{f' ({kinds})' if kinds else ''}, {verdicts['pass']} passed, "
        f"{verdicts['not evaluable']} not evaluable"
    )


def _finding(row: Mapping[str, Any], names: Mapping[str, str], width: int) -> str:
    head = f"{row['severity'].upper():<{_INDENT}}{row['rule']:<{_RULE}}{row['title']}"
    lines = [head]
    if row["trace_id"] in names:
        lines.append(" " * _INDENT + printable(names[row["trace_id"]]))
    lines += _wrapped(row["reason"], width, " " * _INDENT)
    lines += _wrapped(row["advice"], width, " " * _INDENT + "advice: ")
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class _Group:
    # Rows of several traces and rules with the same reason, shown in one entry.

    rules: list[str]
    names: tuple[str, ...]
    reason: str
    advice: list[str]


def _grouped(rows: Sequence[Mapping[str, Any]], names: Mapping[str, str]) -> list[_Group]:
    # First the traces of a rule with one reason, then the rules with the same reason and traces.
    traces: dict[tuple[str, str], list[str]] = {}
    advice: dict[str, str] = {}
    for row in rows:
        own_names = traces.setdefault((row["reason"], row["rule"]), [])
        if row["trace_id"] in names:
            own_names.append(names[row["trace_id"]])
        if row["advice"]:
            advice[row["rule"]] = row["advice"]
    groups: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (reason, rule), own_names in traces.items():
        groups.setdefault((reason, tuple(own_names)), []).append(rule)
    return [
        _Group(
            rules, trace_names, reason, list(dict.fromkeys(advice[r] for r in rules if r in advice))
        )
        for (reason, trace_names), rules in groups.items()
    ]


def _entry(group: _Group, width: int, verbose: bool) -> str:
    shown = ", ".join(group.names[:_NAMES_SHOWN])
    more = len(group.names) - _NAMES_SHOWN
    about = f"{shown} and {more} more: " if more > 0 else f"{shown}: " if shown else ""
    line = f"{', '.join(group.rules)}  {about}{group.reason}"
    lines = list(_wrapped(line, width, "  ", _RULE + 2))
    if verbose:
        for advice in group.advice:
            line = advice.removeprefix("collect ")
            lines += _wrapped(line, width, " " * (_RULE + 2) + "collect: ")
    return "\n".join(lines)


def _wrapped(text: str | None, width: int, head: str, indent: int | None = None) -> Iterator[str]:
    # `indent` is the number of spaces before the second and later lines, by default the length of
    # the head. No-break spaces keep numbers and their % on one line.
    lines = textwrap.wrap(
        printable(text or "").replace(" %", f"{_NO_BREAK}%"),
        width,
        initial_indent=head,
        subsequent_indent=" " * (len(head) if indent is None else indent),
        break_on_hyphens=False,
    )
    yield from (line.replace(_NO_BREAK, " ") for line in lines)
