"""Make single changes of SQL and Python source that a good test suite detects."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

_SQL_HIDDEN = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'", re.DOTALL)
_SWAPPED = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "=": "<>", "<>": "=", "==": "!=", "!=": "==",
    "+": "-", "-": "+", "*": "/", "/": "*", "//": "*", "and": "or", "or": "and",
    "is": "is not", "is not": "is", "in": "not in", "not in": "in", "True": "False",
    "False": "True", "min": "max", "max": "min", "sum": "avg", "avg": "sum", "least": "greatest",
    "greatest": "least", "bool_and": "bool_or", "bool_or": "bool_and", "any": "all", "all": "any",
    "LEFT JOIN": "JOIN", "JOIN": "LEFT JOIN", "AND": "OR", "OR": "AND",
}  # fmt: skip
_SQL_SWAPS = {
    "comparison": re.compile(r"(?<![<>=!:|@-])(?:<=|>=|<>|<|>|=)(?![<>=@])"),
    "arithmetic": re.compile(r"(?<=[\w)\]][ \n])[+*/-](?= [\w(])"),
    "join": re.compile(r"\bLEFT JOIN\b|(?<!LEFT )(?<!CROSS )(?<!ANTI )(?<!SEMI )\bJOIN\b"),
    "aggregate": re.compile(
        r"\b(?:min|max|sum|avg|least|greatest|bool_and|bool_or)(?=\()", re.IGNORECASE
    ),
    "logic": re.compile(r"\bOR\b|\bAND\b"),
}
_SQL_DROPS = {
    "distinct": re.compile(r"\bDISTINCT (?!ON\b|FROM\b)"),
    "negation": re.compile(r"\bNOT "),
    "descending": re.compile(r" DESC\b"),
}
SQL_RULES = (*_SQL_SWAPS, *_SQL_DROPS, "filter", "default", "constant")
"""Kinds of changes of SQL."""
_SQL_CONDITION = re.compile(r"\b(?:WHERE|HAVING|QUALIFY)\b")
_SQL_DEFAULT = re.compile(r"\b(?:coalesce|nullif)(?=\()")
_SQL_FILTER = re.compile(r"\s*\bFILTER (?=\()")
_SQL_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])")
_AND = re.compile(r"\bAND\b")


@dataclass(frozen=True, slots=True)
class Mutation:
    """Replacement of the characters from ``start`` to ``end`` of a text."""

    start: int
    end: int
    replacement: str
    rule: str  # kind of change, for example `comparison`

    def apply(self, text: str) -> str:
        """Return the text with the replacement."""
        return text[: self.start] + self.replacement + text[self.end :]


def mutations(name: str, text: str) -> list[Mutation]:
    """Return the mutations of a file by its extension, ``.sql`` or ``.py``, in text order."""
    candidates = _sql_mutations(text) if name.endswith(".sql") else _python_mutations(text)
    return sorted(set(candidates), key=lambda made: (made.start, made.end, made.replacement))


def _sql_mutations(text: str) -> Iterator[Mutation]:
    code = _SQL_HIDDEN.sub(lambda match: "'" + " " * (len(match[0]) - 2) + "'", text)
    for rule, pattern in _SQL_SWAPS.items():
        for match in pattern.finditer(code):
            if match[0] != "AND" or not _separates_limits(code, match.start()):
                yield Mutation(*match.span(), _SWAPPED[match[0]], rule)
    for rule, pattern in _SQL_DROPS.items():
        for match in pattern.finditer(code):
            yield Mutation(*match.span(), "", rule)
    for match in _SQL_CONDITION.finditer(code):
        yield Mutation(match.end(), match.end(), " true OR", "filter")
    for match in _SQL_FILTER.finditer(code):
        yield Mutation(match.start(), _closing(code, match.end()) + 1, "", "filter")
    for match in _SQL_DEFAULT.finditer(code):
        end = _closing(code, match.end())
        first = text[match.end() + 1 : _end_of_argument(code, match.end() + 1)]
        yield Mutation(match.start(), end + 1, f"({first})", "default")
    for match in _SQL_NUMBER.finditer(code):
        yield from _neighbours(*match.span(), match[0])


def _separates_limits(code: str, start: int) -> bool:
    # The first AND after a BETWEEN.
    between = code.rfind("BETWEEN", 0, start)
    return between >= 0 and not _AND.search(code, between, start)


def _neighbours(start: int, end: int, number: str) -> Iterator[Mutation]:
    for step in (1, -1):
        value = float(number) + step if "." in number else int(number) + step
        yield Mutation(start, end, str(value), "constant")


def _closing(code: str, opening: int) -> int:
    # Position of the parenthesis that closes the one at `opening`.
    depth = 0
    for place in range(opening, len(code)):
        depth += {"(": 1, ")": -1}.get(code[place], 0)
        if depth == 0:
            return place
    raise ValueError(f"unbalanced parenthesis at character {opening}")


def _end_of_argument(code: str, start: int) -> int:
    depth = 0
    for place in range(start, len(code)):
        if depth == 0 and code[place] in ",)":
            return place
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(code[place], 0)
    raise ValueError(f"argument without end at character {start}")


def _python_mutations(text: str) -> Iterator[Mutation]:
    source = _PythonSource(text)
    for node in source.nodes(ast.parse(text)):
        match node:
            case ast.Compare(left=left, comparators=others):
                for before, after in pairwise([left, *others]):
                    yield from source.swap(before, after, "comparison")
            case ast.BinOp(left=left, right=right, op=ast.Add() | ast.Sub() | ast.Mult()):
                yield from source.swap(left, right, "arithmetic")
            case ast.BinOp(left=left, right=right, op=ast.Div() | ast.FloorDiv()):
                yield from source.swap(left, right, "arithmetic")
            case ast.BoolOp(values=values):
                for before, after in pairwise(values):
                    yield from source.swap(before, after, "logic")
            case ast.UnaryOp(op=ast.Not()):
                start, _ = source.span(node)
                yield Mutation(start, start + len("not "), "", "negation")
            case ast.Constant(value=bool() as value):
                yield Mutation(*source.span(node), str(not value), "constant")
            case ast.Constant(value=int() as value):
                yield from _neighbours(*source.span(node), str(value))
            case ast.Call(func=ast.Name(id="min" | "max" | "any" | "all" as name) as function):
                yield Mutation(*source.span(function), _SWAPPED[name], "aggregate")
            case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
                start, end = source.span(test)
                yield Mutation(start, end, f"(not ({text[start:end]}))", "condition")


class _PythonSource:
    # Converts lines and UTF-8 columns of nodes to characters of the text.

    def __init__(self, text: str) -> None:
        self._text = text
        self._lines = text.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))

    def span(self, node: ast.expr) -> tuple[int, int]:
        return self._place(node.lineno, node.col_offset), self._place(
            node.end_lineno or 0, node.end_col_offset or 0
        )

    def _place(self, line: int, column: int) -> int:
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode())

    def swap(self, before: ast.expr, after: ast.expr, rule: str) -> Iterator[Mutation]:
        start, end = self.span(before)[1], self.span(after)[0]
        if sign := re.search(r"[<>=!+*/-]+|\b(?:is not|not in|is|in|and|or)\b",
                             self._text[start:end]):  # fmt: skip
            yield Mutation(start + sign.start(), start + sign.end(), _SWAPPED[sign[0]], rule)

    def nodes(self, node: ast.AST) -> Iterator[ast.AST]:
        # Annotations, decorators and zip(…, strict=True), an assertion, do nothing that a test can
        # observe, and before Python 3.12 nodes in f-strings have wrong places.
        yield node
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list"):
                continue
            if isinstance(node, ast.keyword) and node.arg == "strict":
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr):
                    yield from self.nodes(child)
