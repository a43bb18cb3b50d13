"""Redact private data in the canonical tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

from tbd_trace.errors import UsageError
from tbd_trace.model.canonical_tables import canonical_tables
from tbd_trace.redact.column_policy import candidates, text_columns
from tbd_trace.redact.json_documents import Redactor
from tbd_trace.redact.text import ReportFinding

KINDS = {
    "secrets": "passwords, keys and tokens, also in command lines",
    "environment": "environment variables in capture.json",
    "hosts": "names and network addresses of machines",
    "users": "names of users, and mail addresses",
    "paths": "home directories, and directories of files that are not source code",
    "source-paths": "directories of source files, except the last",
    "kernel-arguments": "values of arguments in the markers of PyProf and DLProf",
    "device-ids": "UUIDs of GPUs",
}
"""Kinds of private data that are redacted, with their descriptions."""
ALL = "all"


@dataclass(frozen=True, slots=True)
class Redaction:
    """Redaction settings.

    Args:
        keep: keys of :data:`KINDS` that are left unchanged; default none.

    Raises:
        UsageError: an unknown kind.
    """

    keep: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if unknown := sorted(self.keep - KINDS.keys()):
            raise UsageError(
                f"--keep {unknown[0]}: no such kind; choose from {', '.join(KINDS)}, or {ALL}"
            )


def parse_keep(keep: Iterable[str]) -> Redaction:
    """Parse values of ``--keep``: kinds, or ``all``.

    Raises:
        UsageError: an unknown kind.
    """
    kinds = frozenset(keep)
    return Redaction(frozenset(KINDS) if ALL in kinds else kinds)


class TableRedactor:
    """Redacts the traces of one archive, with the same pseudonyms (``user1``, ``~``) throughout.

    Args:
        connection: has the canonical tables; user and host names are collected from them.
        redaction: settings; by default everything is redacted.
        documents: further texts and JSON documents to collect names from.

    Attributes:
        redaction: as given.
        counts: number of texts changed so far, by kind. A text counts once per ``select`` call and
            column.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        redaction: Redaction | None = None,
        documents: Iterable[Any] = (),
    ) -> None:
        self.redaction = redaction or Redaction()
        self.counts: Counter[str] = Counter()
        self._connection = connection
        self._redactor = Redactor(self.redaction.keep)
        self._tables = 0
        collect_identities(connection, self._redactor)
        for document in documents:
            self._redactor.collect_identities(document)

    def select(self, table: str, relation: str) -> str:
        """Return a SELECT of the redacted rows of a canonical table, in any order.

        Args:
            relation: a SELECT of its rows, on the redactor's connection.
        """
        # Python redacts each distinct text once; a join applies the changes to millions of rows.
        replaced, joins = [], []
        for column, policy in text_columns(canonical_tables()[table]).items():
            if changed := self._changed(relation, column, policy):
                mapping = self._mapping(changed)
                replaced.append(f"coalesce({mapping}.redacted, r.{column}) AS {column}")
                joins.append(f"LEFT JOIN {mapping} ON {mapping}.original = r.{column}")
        if not joins:
            return relation
        return f"SELECT r.* REPLACE ({', '.join(replaced)}) FROM ({relation}) r {' '.join(joins)}"

    def text(self, text: str) -> str:
        return str(self._counted(lambda report: self._redactor.text(text, report)))

    def document(self, value: Any) -> Any:
        self._redactor.collect_identities(value)
        return self._counted(lambda report: self._redactor.document(value, report))

    def _changed(self, relation: str, column: str, policy: str) -> dict[Any, Any]:
        words = self._redactor.names.words
        texts = candidates(self._connection, relation, column, policy, words)
        changed = {text: self._redacted(policy, text) for text in texts}
        return {text: redacted for text, redacted in changed.items() if text != redacted}

    def _redacted(self, policy: str, text: Any) -> Any:
        return self._counted(lambda report: self._redactor.value(policy, text, report))

    def _counted(self, change: Callable[[ReportFinding], Any]) -> Any:
        kinds: set[str] = set()
        result = change(lambda kind, _value: kinds.add(kind))
        self.counts.update(kinds)
        return result

    def _mapping(self, changed: dict[Any, Any]) -> str:
        self._tables += 1
        name = f"redaction_{self._tables}"
        texts = pa.table({"original": list(changed), "redacted": list(changed.values())})
        self._connection.register("redaction_texts", texts)
        self._connection.execute(f"CREATE TEMP TABLE {name} AS FROM redaction_texts")
        self._connection.unregister("redaction_texts")
        return name


def collect_identities(connection: duckdb.DuckDBPyConnection, redactor: Redactor) -> None:
    """Add the user and host names in the canonical tables of a connection to a redactor."""
    for table, column, policy in private_columns(connection):
        for text in candidates(connection, f"SELECT * FROM {table}", column, policy):
            redactor.collect_identities(text)


def private_columns(connection: duckdb.DuckDBPyConnection) -> Iterator[tuple[str, str, str]]:
    """Yield table, column and policy of the text columns of a connection's canonical tables."""
    existing = {row[0] for row in connection.execute("SHOW TABLES").fetchall()}
    for table in canonical_tables().values():
        if table.name in existing:
            for column, policy in text_columns(table).items():
                yield table.name, column, policy
