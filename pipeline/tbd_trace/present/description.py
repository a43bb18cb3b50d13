"""What a query asks, needs, takes and returns, for people and for programs."""

from __future__ import annotations

import dataclasses
import json
import textwrap
from typing import Any

from tbd_trace.query import Param, Query
from tbd_trace.query.catalogue import required_relations
from tbd_trace.query.header import alternatives

_WIDTH = 88


def parameters(query: Query) -> dict[str, Param]:
    """Return the parameters that a query takes, those of the relations it builds on included."""
    sources = [*required_relations(query.relations), query]
    return {name: param for source in sources for name, param in source.params.items()}


def as_text(query: Query) -> str:
    """Return the description of a query for a terminal."""
    lines = [query.title, "", *_wrapped(query.question, "")]
    lines += [""]
    lines += _entry("source", query.source)
    lines += _entry("grain", query.grain)
    lines += _entry("needs", ", ".join(" or ".join(alternatives(need)) for need in query.needs))
    lines += _entry("uses if there", ", ".join(query.optional))
    lines += _entry("leaves out", query.leaves_out)
    lines += _entry("refuses", refusal(query))
    taken = parameters(query)
    if taken:
        lines += ["", "Parameters (--set NAME=VALUE):"]
        for name, param in taken.items():
            lines += _term(f"{name}={param.default}", meaning(param))
    if query.columns:
        lines += ["", "Columns:"]
        for name, column in query.columns.items():
            lines += _term(f"{name} ({column.unit})" if column.unit else name, column.doc)
    lines += ["", f"Usage: tbd-trace query {query.name} [TRACE]... [--set NAME=VALUE]"]
    return "\n".join(lines) + "\n"


def as_json(query: Query) -> str:
    """Return the description of a query as a JSON object."""
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
    }
    return json.dumps(fields, ensure_ascii=False, indent=2) + "\n"


def meaning(param: Param) -> str:
    """Return what a parameter does, and the values it takes where these are few."""
    if not param.choices:
        return param.doc
    return f"{param.doc} (one of {', '.join(map(str, param.choices))})"


def refusal(query: Query) -> str:
    """Return when an answer is not given although there is one, empty if it always is."""
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
