"""What is taken out of traces before they are shared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

from tbd_trace.errors import UsageError
from tbd_trace.model.canonical_tables import canonical_tables
from tbd_trace.redact.column_policy import candidates, text_columns
from tbd_trace.redact.json_documents import Treatment
from tbd_trace.redact.text import Note

KINDS = {
    "secrets": "passwords, keys and tokens, also in command lines",
    "environment": "environment variables in capture.json",
    "hosts": "names and network addresses of machines",
    "users": "names of users, and mail addresses",
    "paths": "home directories, and directories of files that are not source code",
    "source-paths": "directories of source files, but for the last",
    "kernel-arguments": "values of arguments in the markers of PyProf and DLProf",
    "device-ids": "UUIDs of GPUs",
}
"""What is taken out, each with what it covers."""
ALL = "all"


@dataclass(frozen=True, slots=True)
class Redaction:
    """What may stay in.

    Args:
        keep: some of :data:`KINDS`.

    Raises:
        UsageError: there is no such kind.
    """

    keep: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if unknown := sorted(self.keep - KINDS.keys()):
            raise UsageError(
                f"--keep {unknown[0]}: no such kind; choose from {', '.join(KINDS)}, or {ALL}"
            )


def redaction_of(keep: Iterable[str]) -> Redaction:
    """Return what may stay in when a user names some kinds, or ``all``.

    Raises:
        UsageError: there is no such kind.
    """
    kinds = frozenset(keep)
    return Redaction(frozenset(KINDS) if ALL in kinds else kinds)


class Redactor:
    """Takes private values out of the traces of one archive.

    What stands for a value (``user1``, ``~``) is the same in all that one redactor has treated.

    Args:
        connection: has the canonical tables; names of users and hosts are learned from them.
        redaction: what may stay in.
        documents: further texts and JSON documents to learn names from.

    Attributes:
        redaction: as given.
        counts: number of texts changed so far, by kind. A text counts once for each ``select`` and
            column that it is in.
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
        self._treatment = Treatment(self.redaction.keep)
        self._tables = 0
        learn_tables(connection, self._treatment)
        for document in documents:
            self._treatment.learn(document)

    def select(self, table: str, relation: str) -> str:
        """Return a SELECT of a canonical table's rows without what is private.

        Args:
            table: the canonical table.
            relation: a SELECT of rows of that table, on the redactor's connection.

        Returns:
            A SELECT of the same columns and rows, the rows in any order. It reads a temporary table
            for each column that changes.
        """
        replaced, joins = [], []
        for column, treatment in text_columns(canonical_tables()[table]).items():
            if changed := self._changed(relation, column, treatment):
                mapping = self._mapping(changed)
                replaced.append(f"coalesce({mapping}.redacted, r.{column}) AS {column}")
                joins.append(f"LEFT JOIN {mapping} ON {mapping}.original = r.{column}")
        if not joins:
            return relation
        return f"SELECT r.* REPLACE ({', '.join(replaced)}) FROM ({relation}) r {' '.join(joins)}"

    def text(self, text: str) -> str:
        """Return any text without what is private."""
        return str(self._counted(lambda note: self._treatment.text(text, note)))

    def document(self, value: Any) -> Any:
        """Return a JSON document (``capture.json``, ``layers.json``) without what is private.

        Environments are left out, lists of strings are scrubbed as command lines, and fields that
        are called a host, a user or a secret are replaced whatever they say.
        """
        self._treatment.learn(value)
        return self._counted(lambda note: self._treatment.document(value, note))

    def _changed(self, relation: str, column: str, treatment: str) -> dict[Any, Any]:
        """Return the texts of a column that change, and what they become."""
        words = self._treatment.names.words
        texts = candidates(self._connection, relation, column, treatment, words)
        changed = {text: self._treated(treatment, text) for text in texts}
        return {text: redacted for text, redacted in changed.items() if text != redacted}

    def _treated(self, treatment: str, text: Any) -> Any:
        return self._counted(lambda note: self._treatment.value(treatment, text, note))

    def _counted(self, change: Callable[[Note], Any]) -> Any:
        kinds: set[str] = set()
        result = change(lambda kind, _value: kinds.add(kind))
        self.counts.update(kinds)
        return result

    def _mapping(self, changed: dict[Any, Any]) -> str:
        """Make a temporary table of texts and what replaces them; return its name."""
        self._tables += 1
        name = f"redaction_{self._tables}"
        texts = pa.table({"original": list(changed), "redacted": list(changed.values())})
        self._connection.register("redaction_texts", texts)
        self._connection.execute(f"CREATE TEMP TABLE {name} AS FROM redaction_texts")
        self._connection.unregister("redaction_texts")
        return name


def learn_tables(connection: duckdb.DuckDBPyConnection, treatment: Treatment) -> None:
    """Learn the names of users and hosts that are in the canonical tables of a connection."""
    there = {row[0] for row in connection.execute("SHOW TABLES").fetchall()}
    for table in canonical_tables().values():
        for column, kind in text_columns(table).items() if table.name in there else ():
            for text in candidates(connection, f"SELECT * FROM {table.name}", column, kind):
                treatment.learn(text)
