"""Describe the question, requirements, parameters and columns of a query."""

from __future__ import annotations

import dataclasses
import json
import textwrap
from typing import Any

from tbd_trace.query import Param, Query
from tbd_trace.query.catalogue import required_relations
from tbd_trace.query.header import alternatives

_WIDTH = 88  # columns of the text


def parameters(query: Query) -> dict[str, Param]:
    """Return the parameters of a query and of the relations that it uses."""
    sources = [*required_relations(query.relations), query]
    return {name: param for source in sources for name, param in source.params.items()}


def as_text(query: Query) -> str:
    """Describe a query as text."""
    lines = [query.title, "", *_wrapped(query.question, "")]
    lines += [""]
    lines += _entry("source", query.source)
    lines += _entry("grain", query.grain)
    lines += _entry("needs", ", ".join(" or ".join(alternatives(need)) for need in query.needs))
    lines += _entry("uses if there", ", ".join(query.optional))
    lines += _entry("leaves out", query.leaves_out)
    lines += _entry("refuses", refusal(query))
    lines += _entry("many traces", division(query))
    params = parameters(query)
    if params:
        lines += ["", "Parameters (--set NAME=VALUE):"]
        for name, param in params.items():
            lines += _term(f"{name}={param.default}", meaning(param))
    if query.columns:
        lines += ["", "Columns:"]
        for name, column in query.columns.items():
            lines += _term(f"{name} ({column.unit})" if column.unit else name, column.doc)
    lines += ["", f"Usage: tbd-trace query {query.name} [TRACE]... [--set NAME=VALUE]"]
    return "\n".join(lines) + "\n"


def as_json(query: Query) -> str:
    """Describe a query as a JSON object."""
    fields: dict[str, Any] = {
        "name": query.name,
        "title": query.title,
        "question": query.question,
        "source": query.source,
        "grain": query.grain,
        "needs": query.needs,
        "optional": query.optional,
        "leaves_out": query.leaves_out or None,
        "params": {name: dataclasses.asdict(p) for name, p in parameters(query).items()},
        "columns": {name: dataclasses.asdict(c) for name, c in query.columns.items()},
        "plot": dataclasses.asdict(query.plot) if query.plot else None,
        "refuse": dataclasses.asdict(query.refuse) if query.refuse else None,
        "reduce": query.reduce or None,
    }
    return json.dumps(fields, ensure_ascii=False, indent=2) + "\n"


def division(query: Query) -> str:
    """Return how the query is run over many traces, in words."""
    if not query.reduce:
        return "all together"
    if query.reduce == "concat":
        return "one at a time"
    how = "the rows are added up" if query.reduce == "sum" else f"reduced by {query.reduce[4:]}"
    return f"one at a time; {how}"


def meaning(param: Param) -> str:
    """Return the description of a parameter with its allowed values."""
    if not param.choices:
        return param.doc
    return f"{param.doc} (one of {', '.join(map(str, param.choices))})"


def refusal(query: Query) -> str:
    """Return the condition under which a result is refused, empty if it never is."""
    if query.refuse is None:
        return ""
    return f"where {query.refuse.column} is not NULL, unless {query.refuse.unless} is true"


def _entry(label: str, text: str) -> list[str]:
    if not text:
        return []
    head = f"{label + ':':<15}"
    return textwrap.wrap(text, _WIDTH, initial_indent=head, subsequent_indent=" " * len(head))


def _term(head: str, text: str) -> list[str]:
    return [f"  {head}", *_wrapped(text, " " * 6)]


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(
        " ".join(text.split()), _WIDTH, initial_indent=indent, subsequent_indent=indent
    )
