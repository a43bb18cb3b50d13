"""The TOML header of a query file: what the query asks, needs and returns."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tbd_trace.errors import UsageError

_HEADER = re.compile(r"\A\s*/\*(?P<toml>.*?)\*/(?P<sql>.*)\Z", re.DOTALL)
Scalar = str | int | float | bool
Need = str | list[str]  # a relation that must hold rows, or several of which one must


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
class Plot:
    """How to draw the answer where people look rather than read.

    Attributes:
        kind: line, bar, barh, stacked_bar, histogram or scatter.
        x: column along the axis of categories or of the independent variable.
        y: columns drawn against it.
        series: column whose values make separate lines or groups.
        title: title of the figure; the query's title if empty.
        limit: draw at most this many rows, the first ones.
        panels: columns whose values make panels of their own, with scales of their own; without
            any, each trace has a panel, all on the same scales.
    """

    kind: str
    x: str
    y: list[str]
    series: str | None = None
    title: str = ""
    limit: int | None = None
    panels: list[str] = field(default_factory=list)


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
class Query:
    """One SQL file: a metric, a derived relation or a user's own query.

    Attributes:
        needs: what must hold rows: relations, or lists of them of which one is enough.
        optional: relations that are used if they hold rows.
        partial: whether it asks nothing of the traces as a whole, so that a file seen for the first
            time need not be read beyond the tables that it names.
        refuse: when the answer is not given although there is one.
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
    partial: bool = False
    refuse: Refusal | None = None

    @property
    def relations(self) -> list[str]:
        """Every relation that the header names, each once, those needed first."""
        needed = [name for need in self.needs for name in alternatives(need)]
        return list(dict.fromkeys([*needed, *self.optional]))

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
        return _build(path, sql.strip().rstrip(";"), tomllib.loads(toml))
    except (tomllib.TOMLDecodeError, TypeError, KeyError, AttributeError) as error:
        raise UsageError(f"{path}: its header is not valid ({error})") from error


def _build(path: Path, sql: str, header: dict[str, Any]) -> Query:
    params = {name: Param(**value) for name, value in header.pop("params", {}).items()}
    for name, param in params.items():
        if not isinstance(param.default, Scalar):
            raise TypeError(f"the default of {name} is no text, number or boolean")
    columns = {name: Column(**value) for name, value in header.pop("columns", {}).items()}
    plot = header.pop("plot", None)
    refuse = Refusal(**header.pop("refuse")) if "refuse" in header else None
    if refuse is not None and not isinstance(params[refuse.unless].default, bool):
        raise TypeError(f"{refuse.unless}, by which it refuses, is neither true nor false")
    if not _are_names(header.get("optional", [])):
        raise TypeError("optional is no list of names")
    needs = header.get("needs", [])
    if not isinstance(needs, list) or not all(n and _are_names(alternatives(n)) for n in needs):
        raise TypeError("needs is no list of names, or of lists of names that can stand in")
    for key in ("title", "question", "source", "grain"):
        if not isinstance(header.get(key, ""), str):
            raise TypeError(f"{key} is no text")
    if not isinstance(header.get("partial", False), bool):
        raise TypeError("partial is neither true nor false")
    return Query(
        name=path.stem,
        path=path,
        sql=sql,
        title=header.pop("title", path.stem),
        params=params,
        columns=columns,
        plot=Plot(**plot) if plot else None,
        refuse=refuse,
        **header,
    )


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)
