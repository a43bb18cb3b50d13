"""The TOML header of a query file: what the query asks, needs and returns."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tbd_trace.errors import UsageError
from tbd_trace.model.advice import Advice, parse_advice
from tbd_trace.query.columns import Column, Columns, column
from tbd_trace.query.plot import Plot, parse_plot

_HEADER = re.compile(r"\A\s*/\*(?P<toml>.*?)\*/(?P<sql>.*)\Z", re.DOTALL)
Scalar = str | int | float | bool
Need = str | list[str]  # a relation that must hold rows, or several of which one must
# Prose may span several lines of a header; help, docs and answers show it as one.
_PROSE = {"title", "question", "source", "grain", "doc", "thresholds", "advice", "collect"}


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter: its meaning, allowed values (None: any) and default."""

    doc: str
    default: Scalar
    choices: list[Scalar] | None = None
    items: str = ""  # integer or number: the value is a list of them, separated by commas
    minimum: float | None = None  # of the value, or of each item


@dataclass(frozen=True, slots=True)
class Refusal:
    """The condition under which a result is refused."""

    column: str  # column with the reasons, a sentence or a list of them, NULL where there are none
    unless: str  # parameter that overrides the refusal when it is true


@dataclass(frozen=True, slots=True)
class RowFile:
    """A CSV file whose rows replace a relation, so that no trace is needed."""

    param: str  # parameter with the path of the file; empty: the relation of the traces
    # columns of the file, each of them text or number (0 or more); without any, the relation is
    # replaced together with the one that has them
    columns: dict[str, str]
    rows: str  # SELECT of the relation's columns from row_file: position, file_name, the columns


@dataclass(frozen=True, slots=True)
class Check:
    """The rule that makes a query a check."""

    rule: str  # id of the rule, such as OBS04
    # subject of a row: trace (each trace), sweep (the captures of a batch-size sweep), job (the
    # ranks of a distributed job) or cross-run (captures that are compared)
    scope: str
    thresholds: str  # origin of the parameters' defaults: recalled, proposed, definition
    advice: str  # action for findings whose row has no advice
    collect: str  # data to collect where no verdict was possible


CHECK_COLUMNS = {
    "trace_id": Column("the trace; NULL where the row is about several"),
    "verdict": Column("pass, finding or not evaluable"),
    "severity": Column("of a finding: note, warning or severe; NULL otherwise"),
    "value": Column("measured value, in the unit below; NULL when unknown"),
    "threshold": Column("the value it was compared with, in the same unit"),
    "unit": Column("unit of value and threshold; NULL without one"),
    "evidence": Column("kind of evidence for the value, as in the metric queries"),
    "reason": Column("a sentence with the numbers, or why there is no verdict"),
    "advice": Column("action; NULL where the advice of the header applies"),
}
"""The columns that every check returns, in order."""


@dataclass(frozen=True, slots=True)
class Query:
    """One SQL file: a metric, a derived relation or a user's query."""

    name: str
    path: Path
    sql: str
    title: str
    question: str = ""
    source: str = ""
    grain: str = ""
    # Relations that must have rows; of a list of relations one is enough.
    needs: list[Need] = field(default_factory=list)
    optional: list[str] = field(default_factory=list)
    params: dict[str, Param] = field(default_factory=dict)
    columns: Mapping[str, Column] = field(default_factory=dict)
    plot: Plot | None = None
    # True if a new file must be ingested only in part: the tables that the query names; a list
    # names the columns that are enough, too.
    partial: bool | list[str] = False
    # Canonical table that can be divided: the union of the relation over slices of the table is
    # equivalent to the relation over the whole table.
    slices: str = ""
    # Canonical table that makes a trace large: the relation is then computed at ingest.
    at_ingest: str = ""
    # Module with a function of the relation's name that takes a connection and returns its rows
    # (a polars frame); the SQL then states the types of the columns, without rows.
    computed_by: str = ""
    # How answers for parts of the traces become one: "concat", "sum" or "sql:FILE"; "" if the query
    # needs all traces together.
    reduce: str = ""
    # Traces that are asked together even if there are many: "job" for the ranks of a distributed
    # job, "" for those of a capture.
    together: str = ""
    refuse: Refusal | None = None
    macros: list[str] = field(default_factory=list)  # files of queries/macros, in order
    file: RowFile | None = None
    leaves_out: str = ""  # relation (trace_id, why) of traces that the result does not cover
    check: Check | None = None
    view: bool = False  # a derived relation that is a view, not a computed table
    advice: Advice | None = None  # how to collect the relation

    @property
    def relations(self) -> list[str]:
        """All relations that the header names, once each, required ones first."""
        needed = [name for need in self.needs for name in alternatives(need)]
        named = [*needed, *self.optional, self.leaves_out]
        return list(dict.fromkeys(filter(None, named)))

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")


def alternatives(need: Need) -> list[str]:
    """Return the relations of which one must hold rows."""
    return [need] if isinstance(need, str) else need


def parse_query(path: Path, columns_of: Callable[[str], Mapping[str, Column]]) -> Query:
    """Read a query file; a file without a header is all SQL.

    Args:
        columns_of: returns the columns of a relation; it describes the columns that are passed on.

    Raises:
        UsageError: the file cannot be read, or its header is invalid.
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
        query = _build(path, sql.strip().rstrip(";"), header, columns_of)
        if like is not None:
            # A query beside this one returns the same columns: describe them once.
            other = parse_query(path.with_name(f"{like}.sql"), columns_of)
            query = replace(query, columns=other.columns, plot=other.plot)
        _check_reduction(query)
        return query
    except (tomllib.TOMLDecodeError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UsageError(f"{path}: invalid header ({error})") from error


def _folded(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _folded(inner, name) for name, inner in value.items()}
    return " ".join(value.split()) if isinstance(value, str) and key in _PROSE else value


def _build(
    path: Path,
    sql: str,
    header: dict[str, Any],
    columns_of: Callable[[str], Mapping[str, Column]],
) -> Query:
    params = {name: Param(**value) for name, value in header.pop("params", {}).items()}
    for name, param in params.items():
        if not isinstance(param.default, Scalar):
            raise TypeError(f"the default of {name} is not a text, number or boolean")
    own = {name: column(name, value) for name, value in header.pop("columns", {}).items()}
    check = Check(**header.pop("check")) if "check" in header else None
    plot = header.pop("plot", None)
    advice = header.pop("advice", None)
    refuse = Refusal(**header.pop("refuse")) if "refuse" in header else None
    if refuse is not None and not isinstance(params[refuse.unless].default, bool):
        raise TypeError(f"{refuse.unless}, by which it refuses, is neither true nor false")
    for key in ("optional", "macros", "returns"):
        if not _are_names(header.get(key, [])):
            raise TypeError(f"{key} is not a list of names")
    file = RowFile(**header.pop("file")) if "file" in header else None
    # A relation without columns of the file shares the parameter of the one that has them.
    if file is not None and file.columns and not isinstance(params[file.param].default, str):
        raise TypeError(f"{file.param}, which names a file, is not a text")
    needs = header.get("needs", [])
    if not isinstance(needs, list) or not all(n and _are_names(alternatives(n)) for n in needs):
        raise TypeError("needs is not a list of names or of lists of alternatives")
    for key in (
        "title",
        "question",
        "source",
        "grain",
        "slices",
        "at_ingest",
        "leaves_out",
        "reduce",
        "computed_by",
        "together",
    ):
        if not isinstance(header.get(key, ""), str):
            raise TypeError(f"{key} is not a text")
    partial = header.get("partial", False)
    if not isinstance(partial, bool) and not _are_names(partial):
        raise TypeError("partial is neither true nor false nor a list of names")
    returns = header.pop("returns", list(own))
    query = Query(
        name=path.stem,
        path=path,
        sql=sql,
        title=header.pop("title", path.stem),
        params=params,
        check=check,
        plot=parse_plot(plot) if plot else None,
        refuse=refuse,
        file=file,
        advice=parse_advice(advice) if advice else None,
        **header,
    )
    if check is not None:
        return replace(query, columns=CHECK_COLUMNS)
    return replace(query, columns=Columns(returns, own, query.relations, columns_of))


def _check_reduction(query: Query) -> None:
    file = query.reduce.removeprefix("sql:")
    if query.reduce not in ("", "concat", "sum") and file in ("", query.reduce):
        raise TypeError('reduce is none of "concat", "sum" and "sql:FILE"')
    if query.reduce == "concat" and next(iter(query.columns), "") != "trace_id":
        raise TypeError('reduce = "concat" needs trace_id as the first column')
    if query.reduce == "sum" and not any(column.unit for column in query.columns.values()):
        raise TypeError('reduce = "sum" adds up the columns with a unit, and there is none')
    if file != query.reduce and not (query.path.parent / file).is_file():
        raise TypeError(f"reduce names {file}, which is not there")
    if query.together not in ("", "job"):
        raise TypeError('together is not "job"')
    if query.reduce and query.leaves_out:
        raise TypeError("reduce divides the traces, and leaves_out needs all of them")


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)
