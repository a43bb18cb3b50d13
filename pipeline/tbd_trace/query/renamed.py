"""Old names of relations, which users' own queries can use for one release.

``queries/renamed.toml`` lists them. An old name is a view of the new relation, with the old names
of its columns, and its use is noted.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from tbd_trace import resources
from tbd_trace.query.catalogue import derived_names, derived_relation

_FILE = "renamed.toml"


@dataclass(frozen=True, slots=True)
class OldNames:
    """Relations behind a set of names."""

    required: set[str]  # the names, with new names in place of old ones
    statements: list[str]  # SQL that creates the views of old names
    notes: list[str]  # one sentence per old name


def resolve_old_names(names: Iterable[str]) -> OldNames:
    """Return the new names behind ``names``, and views that answer for old names."""
    given = set(names)
    old = sorted(given & _renamed()["relations"].keys() - derived_names())
    new = {name: _renamed()["relations"][name] for name in old}
    return OldNames(
        (given - set(old)) | set(new.values()),
        [f"CREATE OR REPLACE TEMP VIEW {name} AS {_view(new[name])}" for name in old],
        [
            f"the relation {name} is called {new[name]} since 0.2; the old name works in this "
            "release only"
            for name in old
        ],
    )


def old_names() -> set[str]:
    """Return the old names of relations."""
    return set(_renamed()["relations"])


def _view(relation: str) -> str:
    columns = derived_relation(relation).columns
    old = {n: o for n, o in _renamed()["columns"].items() if n in columns and o not in columns}
    renames = ", ".join(f"{new} AS {name}" for new, name in old.items())
    return f"SELECT *{f' RENAME ({renames})' if renames else ''} FROM {relation}"


@cache
def _renamed() -> Mapping[str, Mapping[str, str]]:
    with (resources.queries() / _FILE).open("rb") as file:
        return tomllib.load(file)
