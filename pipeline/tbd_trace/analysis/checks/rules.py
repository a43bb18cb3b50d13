"""Select rules and parse their parameters."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from tbd_trace.errors import UsageError
from tbd_trace.query import Catalogue, Check, Query
from tbd_trace.query.catalogue import required_relations
from tbd_trace.query.header import Param, Scalar
from tbd_trace.query.parameters import parameter_values

# Rules evaluate whole windows of traces: no grouping of rows, no file in place of traces.
_FIXED = {"by", "layers"}


def rule_of(query: Query) -> Check:
    """Return the ``[check]`` part of a query's header."""
    assert query.check is not None, query.name
    return query.check


def select(names: Sequence[str] | None = None) -> list[Query]:
    """Return the named checks, by default all, without duplicates in the order of rule ids.

    Args:
        names: rule ids (OBS04) or file names (gpu_idle_small_batch), in any case, with - or _.

    Raises:
        UsageError: an unknown rule; the message suggests similar names.
    """
    checks = Catalogue().checks()
    if not names:
        return checks
    known = {_key(name): query for query in checks for name in (query.name, rule_of(query).rule)}
    chosen = []
    for name in names:
        if _key(name) not in known:
            close = difflib.get_close_matches(_key(name), known, n=3)
            hint = f"; did you mean {', '.join(close)}?" if close else ""
            raise UsageError(f"no rule {name!r}{hint} (`tbd-trace check --list` shows all)")
        chosen.append(known[_key(name)].name)
    return [query for query in checks if query.name in chosen]


def _key(name: str) -> str:
    return name.strip().lower().replace("-", "_")


def values(checks: Sequence[Query], given: Mapping[str, str]) -> dict[str, Scalar]:
    """Parse the values of parameters of checks.

    Raises:
        UsageError: no check has the parameter, or the value is not allowed.
    """
    parsed: dict[str, Scalar] = {}
    for query in checks:
        relations = required_relations(query.relations)
        known = {name for source in (*relations, query) for name in source.params} - _FIXED
        own = {name: text for name, text in given.items() if name in known}
        parsed |= parameter_values(query, relations, own)
    for name in given.keys() - parsed.keys():
        names = ", ".join(sorted(parameters(checks)))
        raise UsageError(f"no selected rule has a parameter {name!r} (parameters: {names})")
    return parsed


def parameters(checks: Sequence[Query]) -> dict[str, Param]:
    """Return the parameters of checks, then those of the relations that the checks use."""
    built = required_relations(name for query in checks for name in query.relations)
    params = [item for source in (*checks, *built) for item in source.params.items()]
    return {name: param for name, param in params if name not in _FIXED}
