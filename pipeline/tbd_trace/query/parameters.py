"""The values of a query's parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tbd_trace.errors import UsageError
from tbd_trace.query.header import Param, Query, Scalar

_KINDS = {str: "text", int: "an integer", float: "a number", bool: "yes or no"}
_LARGEST = 2**63 - 1  # of what DuckDB counts with


def parameter_values(
    query: Query, relations: Iterable[Query], given: Mapping[str, str]
) -> dict[str, Scalar]:
    """Return parameters as values.

    Args:
        relations: the derived relations that it builds on; their parameters are its own, too.

    Raises:
        UsageError: a parameter is unknown, or its value not allowed.
    """
    known: dict[str, Param] = {}
    for source in [*relations, query]:
        known |= source.params
    for name in given:
        if name not in known:
            names = ", ".join(sorted(known)) or "it has none"
            raise UsageError(f"{query.name} has no parameter {name!r} (parameters: {names})")
    return {name: _typed(name, known[name], text) for name, text in given.items()}


def _typed(name: str, param: Param, text: str) -> Scalar:
    """Return a parameter's text as a value of the type of its default.

    Raises:
        UsageError: the text is no such value, or not among the choices.
    """
    if param.items:
        return _listed(name, param, text)
    value = _value(name, text, type(param.default), param.minimum)
    if param.choices and value not in param.choices:
        allowed = ", ".join(str(choice) for choice in param.choices)
        raise UsageError(f"{name}={text}: not among {allowed}")
    return value


def _listed(name: str, param: Param, text: str) -> str:
    if text.strip() == param.default == "":
        return ""
    kind = int if param.items == "integer" else float
    return ",".join(repr(_value(name, item, kind, param.minimum)) for item in text.split(","))


def _value(name: str, text: str, kind: type[Scalar], minimum: float | None) -> Scalar:
    try:
        value: Scalar = _boolean(text) if kind is bool else kind(text)
        if isinstance(value, int | float) and not abs(value) <= _LARGEST:  # nan is not, either
            raise ValueError
    except ValueError:
        raise UsageError(f"{name}={text}: expected {_KINDS[kind]}") from None
    if minimum is not None and isinstance(value, int | float) and value < minimum:
        raise UsageError(f"{name}={text}: expected at least {minimum:g}")
    return value


def _boolean(text: str) -> bool:
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if text.lower() not in words:
        raise ValueError(text)
    return words[text.lower()]
