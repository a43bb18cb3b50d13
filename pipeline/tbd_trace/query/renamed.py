"""Old names of relations and columns, which users' own queries can use for two minor versions.

``queries/renamed.toml`` lists them by the version that changed them. An old name of a relation is a
view of the new relation, with the old names of its columns, and its use is noted.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from tbd_trace import resources
from tbd_trace.query.catalogue import derived_names, derived_relation

WORKING_VERSIONS = 2
"""Minor versions in which an old name works: the one that changed it, and the next."""

_FILE = "renamed.toml"


@dataclass(frozen=True, slots=True)
class Renamed:
    """The new name for an old one."""

    name: str
    since: str  # version that changed it, such as 0.2.0

    @property
    def until(self) -> str:
        """The version that removes the old name."""
        major, minor, _ = self.since.split(".")
        return f"{major}.{int(minor) + WORKING_VERSIONS}.0"


@dataclass(frozen=True, slots=True)
class OldNames:
    """Relations behind a set of names."""

    required: set[str]  # the names, with new names in place of old ones
    statements: list[str]  # SQL that creates the views of old names
    notes: list[str]  # one sentence per old name


def resolve_old_names(names: Iterable[str]) -> OldNames:
    """Return the new names behind ``names``, and views that answer for old names."""
    given, relations = set(names), renamed("relations")
    old = {name: relations[name] for name in sorted(given & relations.keys() - derived_names())}
    return OldNames(
        (given - old.keys()) | {new.name for new in old.values()},
        [f"CREATE OR REPLACE VIEW {name} AS {_view(new)}" for name, new in old.items()],
        [_note(name, new) for name, new in old.items()],
    )


def old_names() -> set[str]:
    """Return the old names of relations."""
    return set(renamed("relations"))


def column_hint(message: str) -> str:
    """Return a line for each old column name that an error of DuckDB quotes."""
    return "".join(
        f"\nthe column {old} is called {new.name} since {new.since}"
        for old, new in renamed("columns").items()
        if f'"{old}"' in message
    )


@cache
def renamed(kind: str) -> Mapping[str, Renamed]:
    """Return new names by old ones; ``kind`` is ``relations`` or ``columns``."""
    with (resources.queries() / _FILE).open("rb") as file:
        versions = tomllib.load(file)
    return {
        old: Renamed(new, since)
        for since, kinds in versions.items()
        for old, new in kinds.get(kind, {}).items()
    }


def _note(old: str, new: Renamed) -> str:
    columns = "".join(
        f", and its column {name} is called {column}" for name, column in _columns(new).items()
    )
    return (
        f"the relation {old} is called {new.name} since {new.since}{columns}; "
        f"the old name works until {new.until}"
    )


def _view(new: Renamed) -> str:
    renames = ", ".join(f"{column} AS {old}" for old, column in _columns(new).items())
    return f"SELECT *{f' RENAME ({renames})' if renames else ''} FROM {new.name}"


def _columns(new: Renamed) -> dict[str, str]:
    """Return the columns of a relation by the names that they had under its old name."""
    columns = derived_relation(new.name).columns
    return {
        old: other.name
        for old, other in renamed("columns").items()
        if other.name in columns
        and old not in columns
        and _numbers(other.since) >= _numbers(new.since)
    }


def _numbers(version: str) -> list[int]:
    return [int(number) for number in version.split(".")]
