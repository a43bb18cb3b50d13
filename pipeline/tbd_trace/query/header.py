"""The TOML header of a query file: what the query asks, needs and returns."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tbd_trace.errors import UsageError
from tbd_trace.model.advice import Advice, parse_advice
from tbd_trace.query.plot import Plot, parse_plot

_HEADER = re.compile(r"\A\s*/\*(?P<toml>.*?)\*/(?P<sql>.*)\Z", re.DOTALL)
Scalar = str | int | float | bool
Need = str | list[str]  # a relation that must hold rows, or several of which one must
# Prose may span several lines of a header; help, docs and answers show it as one.
_PROSE = {"title", "question", "source", "grain", "doc", "thresholds", "advice", "collect"}


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter: what it does, the values allowed (None: any) and its default."""

    doc: str
    default: Scalar
    choices: list[Scalar] | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the answer: its unit (None: no unit) and meaning."""

    doc: str
    unit: str | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """When an answer is not given although there is one.

    Attributes:
        column: column with the reasons, a sentence or a list of them, NULL where there are none.
        unless: parameter that asks for the answer all the same when it is true.
    """

    column: str
    unless: str


@dataclass(frozen=True, slots=True)
class Check:
    """What makes a query a check: a rule, and what to do where it finds something.

    Attributes:
        rule: id of the rule, such as OBS04.
        scope: what a row is about: trace (each trace), sweep (the captures of a batch-size sweep)
            or cross-run (captures that are set against each other).
        thresholds: where the defaults of its parameters come from: recalled, proposed, definition.
        advice: what to do about a finding whose row has no advice of its own.
        collect: what to collect where nothing could be judged.
    """

    rule: str
    scope: str
    thresholds: str
    advice: str
    collect: str


CHECK_COLUMNS = {
    "trace_id": Column("the trace; NULL where the row is about several"),
    "verdict": Column("pass, finding or not evaluable"),
    "severity": Column("of a finding: note, warning or severe; NULL otherwise"),
    "value": Column("what was measured, in the unit below; NULL when it could not be"),
    "threshold": Column("what it was compared with, in the same unit"),
    "unit": Column("unit of value and threshold; NULL without one"),
    "evidence": Column("how the value is known, as in the metric queries"),
    "reason": Column("a sentence with the numbers, or why there is no verdict"),
    "advice": Column("what to change or to collect; NULL where the header's advice says it"),
}
"""The columns that every check returns, in order."""


@dataclass(frozen=True, slots=True)
class Query:
    """One SQL file: a metric, a derived relation or a user's own query.

    Attributes:
        needs: what must hold rows: relations, or lists of them of which one is enough.
        optional: relations that are used if they hold rows.
        partial: whether it asks nothing of the traces as a whole, so that a file seen for the first
            time need not be read beyond the tables that it names; or the columns of those that are
            enough, too, which no other question then finds there.
        slices: of a derived relation, the canonical table that may be given slice by slice: what
            slices of it give is together what the whole gives, or as good for what builds on it.
        refuse: when the answer is not given although there is one.
        leaves_out: the relation (trace_id, why) of the traces that the answer says nothing about,
            which are named in notes; empty for none.
        check: what makes it a check; the columns are then those of every check.
        view: of a derived relation, True if it is a view rather than a table that is computed.
        advice: how to collect the relation where a trace lacks it.
    """

    name: str
    path: Path
    sql: str
    title: str
    question: str = ""
    source: str = ""
    grain: str = ""
    needs: list[Need] = field(default_factory=list)
    optional: list[str] = field(default_factory=list)
    params: dict[str, Param] = field(default_factory=dict)
    columns: dict[str, Column] = field(default_factory=dict)
    plot: Plot | None = None
    partial: bool | list[str] = False
    slices: str = ""
    refuse: Refusal | None = None
    leaves_out: str = ""
    check: Check | None = None
    view: bool = False
    advice: Advice | None = None

    @property
    def relations(self) -> list[str]:
        """Every relation that the header names, each once, those needed first."""
        needed = [name for need in self.needs for name in alternatives(need)]
        named = [*needed, *self.optional, self.leaves_out]
        return list(dict.fromkeys(filter(None, named)))

    @property
    def text(self) -> str:
        """The whole file, header included."""
        return self.path.read_text(encoding="utf-8")


def alternatives(need: Need) -> list[str]:
    """Return the relations of which one must hold rows."""
    return [need] if isinstance(need, str) else need


def parse_query(path: Path) -> Query:
    """Read a query file; a file without a header is all SQL.

    Raises:
        UsageError: the file cannot be read, or its header is not what it should be.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read as a query file ({error})") from error
    match = _HEADER.match(text)
    toml = match["toml"] if match and re.search(r"^\s*\w+\s*=", match["toml"], re.M) else ""
    sql = match["sql"] if match and toml else text
    try:
        header = _folded(tomllib.loads(toml))
        like = header.pop("like", None)
        query = _build(path, sql.strip().rstrip(";"), header)
        if like is None:
            return query
        # A query beside this one returns the same columns: describe them once.
        other = parse_query(path.with_name(f"{like}.sql"))
        return replace(query, columns=other.columns, plot=other.plot)
    except (tomllib.TOMLDecodeError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UsageError(f"{path}: its header is not valid ({error})") from error


def _folded(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _folded(inner, name) for name, inner in value.items()}
    return " ".join(value.split()) if isinstance(value, str) and key in _PROSE else value


def _build(path: Path, sql: str, header: dict[str, Any]) -> Query:
    params = {name: Param(**value) for name, value in header.pop("params", {}).items()}
    for name, param in params.items():
        if not isinstance(param.default, Scalar):
            raise TypeError(f"the default of {name} is no text, number or boolean")
    columns = {name: Column(**value) for name, value in header.pop("columns", {}).items()}
    check = Check(**header.pop("check")) if "check" in header else None
    plot = header.pop("plot", None)
    advice = header.pop("advice", None)
    refuse = Refusal(**header.pop("refuse")) if "refuse" in header else None
    if refuse is not None and not isinstance(params[refuse.unless].default, bool):
        raise TypeError(f"{refuse.unless}, by which it refuses, is neither true nor false")
    if not _are_names(header.get("optional", [])):
        raise TypeError("optional is no list of names")
    needs = header.get("needs", [])
    if not isinstance(needs, list) or not all(n and _are_names(alternatives(n)) for n in needs):
        raise TypeError("needs is no list of names, or of lists of names that can stand in")
    for key in ("title", "question", "source", "grain", "slices", "leaves_out"):
        if not isinstance(header.get(key, ""), str):
            raise TypeError(f"{key} is no text")
    partial = header.get("partial", False)
    if not isinstance(partial, bool) and not _are_names(partial):
        raise TypeError("partial is neither true nor false nor a list of names")
    return Query(
        name=path.stem,
        path=path,
        sql=sql,
        title=header.pop("title", path.stem),
        params=params,
        columns=columns if check is None else CHECK_COLUMNS,
        check=check,
        plot=parse_plot(plot) if plot else None,
        refuse=refuse,
        advice=parse_advice(advice) if advice else None,
        **header,
    )


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)
