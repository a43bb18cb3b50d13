"""What the rules say, as text to read: findings in full, the rest in a line or two each."""

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
"""Columns of the text where there is no terminal to fit in."""

_LEAST_WIDTH = 60
_INDENT = 9  # of what belongs to a finding, below its severity
_RULE = 7  # of a rule's id and the space behind it
_NAMED = 2  # traces of which the same is said
_GLUE = "\N{NO-BREAK SPACE}"
_HEADINGS = {"not evaluable": "Not evaluable", "pass": "Passed"}


def render(
    frame: pl.DataFrame, names: Mapping[str, str], width: int = WIDTH, *, verbose: bool = False
) -> str:
    """Return an evaluation as text.

    Args:
        frame: rows of :func:`tbd_trace.analysis.checks.evaluate`.
        names: names of the traces by their ids; shown where there are several.
        width: columns to fit in.
        verbose: tell what to collect for what is not evaluable, too.
    """
    width = max(width, _LEAST_WIDTH)
    rows = list(frame.iter_rows(named=True))
    shown = names if len(names) > 1 else {}
    blocks = [_finding(row, shown, width) for row in rows if row["verdict"] == "finding"]
    for verdict, heading in _HEADINGS.items():
        alike = _alike([row for row in rows if row["verdict"] == verdict], shown)
        entries = [_entry(group, width, verbose) for group in alike]
        if entries:
            blocks.append("\n".join([heading, *entries]))
    return "\n\n".join([*blocks, summary(frame)]) + "\n"


def summary(frame: pl.DataFrame) -> str:
    """Return how many findings there are, and how many rows of other verdicts."""
    verdicts = Counter(frame["verdict"].to_list())
    found = Counter(frame["severity"].drop_nulls().to_list())
    kinds = ", ".join(
        f"{found[severity]} {severity}{'s' if found[severity] > 1 and severity != 'severe' else ''}"
        for severity in reversed(SEVERITIES)
        if found[severity]
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
class _Alike:
    """Rows of which the same is said: of several traces, and then by several rules."""

    rules: list[str]
    names: tuple[str, ...]
    reason: str
    advice: list[str]


def _alike(rows: Sequence[Mapping[str, Any]], names: Mapping[str, str]) -> list[_Alike]:
    """Return the rows put together; each rule speaks of all the traces of its group."""
    traces: dict[tuple[str, str], list[str]] = {}
    advice: dict[str, str] = {}
    for row in rows:
        of_rule = traces.setdefault((row["reason"], row["rule"]), [])
        if row["trace_id"] in names:
            of_rule.append(names[row["trace_id"]])
        if row["advice"]:
            advice[row["rule"]] = row["advice"]
    groups: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (reason, rule), found in traces.items():
        groups.setdefault((reason, tuple(found)), []).append(rule)
    return [
        _Alike(rules, found, reason, list(dict.fromkeys(advice[r] for r in rules if r in advice)))
        for (reason, found), rules in groups.items()
    ]


def _entry(group: _Alike, width: int, verbose: bool) -> str:
    shown = ", ".join(group.names[:_NAMED])
    more = len(group.names) - _NAMED
    about = f"{shown} and {more} more: " if more > 0 else f"{shown}: " if shown else ""
    told = f"{', '.join(group.rules)}  {about}{group.reason}"
    lines = list(_wrapped(told, width, "  ", _RULE + 2))
    if verbose:
        for advice in group.advice:
            told = advice.removeprefix("collect ")
            lines += _wrapped(told, width, " " * (_RULE + 2) + "collect: ")
    return "\n".join(lines)


def _wrapped(text: str | None, width: int, head: str, indent: int | None = None) -> Iterator[str]:
    """Yield the lines of a text: the head before the first, an indent before the others.

    Args:
        text: the text; a number and its % stay together.
        width: columns to fit in.
        head: what stands before the text.
        indent: spaces before the other lines; None means as many as the head is long.
    """
    lines = textwrap.wrap(
        printable(text or "").replace(" %", f"{_GLUE}%"),
        width,
        initial_indent=head,
        subsequent_indent=" " * (len(head) if indent is None else indent),
        break_on_hyphens=False,
    )
    yield from (line.replace(_GLUE, " ") for line in lines)
