"""Digests of the rows that queries return for generated traces.

    PYTHONPATH=tests/helpers python tests/generated/query_digests.py

rewrites `query_digests.csv`, which has a line with a digest for each column of each query. The
digests come from the queries themselves, so they show which queries and columns a change affects,
not whether the rows are right. With the argument `rows QUERY` the program prints the rows instead.
"""

from __future__ import annotations

import csv
import hashlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import duckdb

from generated_flight import dumps
from generated_traces import generated
from made_checks import rows_on
from made_pair import answers_on
from made_trace import MadeDatabase, MadeTrace, Row
from query_files import CHECKS, DERIVED, METRICS
from tbd_trace import resources
from tbd_trace.query.catalogue import parameters_behind, read_query
from tbd_trace.query.connection import prepare
from tbd_trace.sqltext import identifier
from varied_rows import varied

FILE = Path(__file__).resolve().parent / "query_digests.csv"
DIFFERENCES = sorted((resources.queries() / "diff").glob("*.sql"))
SEED = 1
PAIRS = {
    1: (("t0", "rank0", "memory0"), ("t1", "rank1", "memory1")),
    2: (("t0", "t1", "memory2"), ("t7", "t8", "memory0")),
    3: (("rank0", "rank1"), ("rank1", "rank2")),
}
"""Traces on the sides A and B of comparisons."""
OTHER_SETTINGS = {
    "min_confidence": 0.5, "window": "iterations", "clock": "host", "link_gbit": 10.0,
    "latency_s": 1e-3, "optimizer_s": 1e-4, "tail_s": 1e-4, "host_bytes_per_s": 1e9,
    "bucket_bytes": 4096, "first_bucket_bytes": 512, "slice_bytes": 300, "uncertainty_pct": 10.0,
    "workers": "3", "utc_uncertainty_ms": 0.5, "min_share_pct": 40.0, "min_lateness_pct": 1.0,
    "min_collectives": 1,
}  # fmt: skip
"""Parameters of relations, which every query that depends on one is also asked with."""
SETTINGS = ("settings", "other")
VARIED = ("traces", "varied")
_CHOOSE_DATABASE = {SETTINGS, VARIED}
AT_VALUE = "value"
"""Stands for the middle value that a check compares with its limit."""
_HASHES_FROM = 1 << 61  # above times and addresses
_DIGITS = 9  # of floats


@dataclass(frozen=True)
class Question:
    """A query file and the parameters that it is asked with."""

    path: Path
    parameters: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        name = f"{self.folder}/{self.path.stem}"
        return "-".join([name, *(f"{name}={value}" for name, value in self.parameters)])

    @property
    def folder(self) -> str:
        return self.path.relative_to(resources.queries()).parts[0]


def questions() -> list[Question]:
    """Return every query with its defaults, and some with other parameters."""
    found = [Question(path) for path in [*DERIVED, *METRICS, *CHECKS]]
    for path in METRICS:
        for name, param in read_query(path).params.items():
            others: list[Any] = [
                choice for choice in param.choices or [] if choice != param.default
            ]
            if _is_number(param.default):
                others = [value for value in (1, 2 * param.default) if value != param.default]
            found += [Question(path, ((name, other),)) for other in others]
    for path in CHECKS:
        params = read_query(path).params
        limits = [name for name in params if name.startswith(("min_", "max_"))]
        found += [Question(path, tuple((name, 0) for name in limits))] if limits else []
        found += [Question(path, ((name, AT_VALUE),)) for name in limits]
        doubled = {name: 2 * param.default or 2 for name, param in params.items()}
        found += [Question(path, tuple(doubled.items()))] if params else []
    for path in [*DERIVED, *METRICS, *CHECKS]:
        query = read_query(path)
        names = set(query.params).union(*map(parameters_behind, query.relations))
        found += [Question(path, (SETTINGS,))] if names & OTHER_SETTINGS.keys() else []
    found += [Question(path, (VARIED,)) for path in [*DERIVED, *METRICS, *CHECKS]]
    pairs = [(("pair", number),) for number in PAIRS]
    pairs += [(*pair, VARIED) for pair in pairs]
    return found + [Question(path, pair) for path in DIFFERENCES for pair in pairs]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@cache
def _traces() -> MadeTrace:
    return generated(SEED)


@cache
def _database() -> MadeDatabase:
    return _traces().connect()


@cache
def _varied_traces() -> MadeTrace:
    return varied(generated(SEED + 1), SEED)


@cache
def _varied_database() -> MadeDatabase:
    return _varied_traces().connect()


@cache
def _dumps(is_varied: bool) -> MadeDatabase:
    # By themselves: more traces would change the rows of all other queries.
    return (varied(dumps(SEED), SEED) if is_varied else dumps(SEED)).connect()


@cache
def _with_other_settings() -> MadeDatabase:
    return _traces().connect().set(**OTHER_SETTINGS)


@cache
def _differences(pair: int, is_varied: bool) -> Mapping[str, list[Row]]:
    database = _varied_database() if is_varied else _database()
    database.set(min_change_pct=1)  # no relation depends on it
    try:
        return answers_on(database, *PAIRS[pair])
    finally:
        database.connection.execute("RESET VARIABLE min_change_pct")


def rows(question: Question) -> list[Row]:
    """Return the rows of a query for the generated traces, or the error that it raises."""
    if question.folder == "diff":
        pair = dict(question.parameters)["pair"]
        return list(_differences(pair, VARIED in question.parameters)[question.path.stem])
    with database_for(question) as database:
        try:
            return answer(database, question)
        except duckdb.Error as error:
            return [{"error": str(error).splitlines()[0]}]


@contextmanager
def database_for(question: Question) -> Iterator[MadeDatabase]:
    """Yield the generated traces, in a new database if relations depend on the parameters."""
    if "flight_rank" in {question.path.stem, *read_query(question.path).relations}:
        yield _dumps(VARIED in question.parameters)
        return
    if SETTINGS in question.parameters:
        yield _with_other_settings()
        return
    if VARIED in question.parameters:
        yield _varied_database()
        return
    reads = read_query(question.path).relations
    names = {name for name, _ in question.parameters}
    if any(names & set(parameters_behind(relation)) for relation in reads):
        with _traces().connect() as database:
            yield database
        return
    try:
        yield _database()
    finally:
        for name in names:
            _database().connection.execute(f"RESET VARIABLE {identifier(name)}")


def answer(database: MadeDatabase, question: Question) -> list[Row]:
    """Return the rows of a query of a relation, metric or check.

    Raises:
        duckdb.Error: it cannot be computed.
    """
    name = question.path.stem
    parameters = dict(set(question.parameters) - _CHOOSE_DATABASE)
    if question.folder == "checks":
        limits = _limits(database, name, parameters)
        return rows_on(database, name, **limits) if limits else _judged(database, name)
    if question.folder == "metrics":
        return database.metric(name, **parameters)
    prepare(database.connection, [name])
    return database.select(f"FROM {name}")


def _limits(database: MadeDatabase, check: str, parameters: dict[str, Any]) -> dict[str, Any]:
    # A comparison with the very value shows whether it includes the limit.
    if AT_VALUE not in parameters.values():
        return parameters
    found = [row["value"] for row in _judged(database, check) if row["value"] is not None]
    at = sorted(found)[len(found) // 2] if found else 0
    return {name: at if value == AT_VALUE else value for name, value in parameters.items()}


@cache
def _judged(database: MadeDatabase, check: str) -> list[Row]:
    return rows_on(database, check)


def digests(question: Question) -> dict[str, str]:
    """Return a digest of each column, empty without rows."""
    found = _plain(rows(question))
    if question.folder == "derive":  # relations have no order
        found.sort(key=repr)
    return {column: digest([row[column] for row in found]) for column in (found or [{}])[0]}


def digest(values: object) -> str:
    """Return a short digest of values with the same text."""
    return hashlib.sha256(repr(values).encode()).hexdigest()[:12]


def _plain(found: list[Row]) -> list[Row]:
    # Without keys made by hash(), which differ between versions of DuckDB.
    hashes = {
        name for row in found for name, value in row.items()
        if isinstance(value, int) and value >= _HASHES_FROM
    }  # fmt: skip
    return [
        {name: _rounded(value) for name, value in row.items() if name not in hashes}
        for row in found
    ]


def _rounded(value: Any) -> Any:
    match value:
        case float():
            return float(f"{value:.{_DIGITS}g}")
        case list():
            return [_rounded(each) for each in value]
        case dict():
            return {name: _rounded(each) for name, each in value.items()}
    return value


def lines(asked: Iterable[Question]) -> Iterator[tuple[str, str, str]]:
    """Yield query, column and digest."""
    for question in asked:
        for column, own in digests(question).items():
            yield str(question), column, own


@cache
def committed(path: Path = FILE) -> dict[str, dict[str, str]]:
    """Return the digests of a file, by query and column."""
    found: dict[str, dict[str, str]] = {}
    with path.open(newline="", encoding="utf-8") as file:
        for line in csv.DictReader(file):
            found.setdefault(line["query"], {})[line["column"]] = line["digest"]
    return found


def write(path: Path, rows: Iterable[tuple[str, str, str]]) -> None:
    """Write a CSV file of queries, columns and digests."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("query", "column", "digest"))
        writer.writerows(rows)


def main() -> None:
    """Write the file, or print rows."""
    if sys.argv[1:2] == ["rows"]:
        for question in questions():
            if str(question) in sys.argv[2:]:
                print(f"# {question}", *rows(question), sep="\n")
        return
    write(FILE, lines(questions()))


if __name__ == "__main__":
    main()
