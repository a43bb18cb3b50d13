"""Write the ``.duckdb`` file: views over the Parquet files, for users with a DuckDB shell.

tbd-trace itself reads the Parquet files. The views find them by glob pattern, so that the file
stays valid when traces come and go, and can stay open elsewhere. Computed relations are not in it:
``tbd-trace query NAME --sql`` prints a query with the relations that it reads.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import duckdb

from tbd_trace import resources
from tbd_trace.errors import StoreError
from tbd_trace.model.canonical_tables import canonical_tables
from tbd_trace.runtime.private_files import private_prefix, remove_abandoned, temporary_directory
from tbd_trace.sqltext import csv_relation, glob_escaped, identifier, string
from tbd_trace.store.tables import files_pattern


class HasViews(Protocol):
    """A database whose ``.duckdb`` file holds views."""

    @property
    def path(self) -> Path:
        """The ``.duckdb`` file."""

    @property
    def traces_directory(self) -> Path:
        """The directory of the traces."""

    def trace_ids(self) -> list[str]:
        """Return the ids of all traces."""


_MAGIC = b"DUCK"
_HEADER = re.compile(r"^\s*/\*(?P<toml>.*?)\*/", re.DOTALL)
_IS_VIEW = re.compile(r"^view\s*=\s*true$", re.MULTILINE)  # derived relations that are views
_MAGIC_OFFSET = 8
_TRACE = "[0-9a-f]" * 12  # as a pattern: no directory that is just being written


def is_duckdb(path: Path) -> bool:
    """Return True if a file is a DuckDB database.

    Raises:
        StoreError: the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            return file.read(_MAGIC_OFFSET + len(_MAGIC))[_MAGIC_OFFSET:] == _MAGIC
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return False
    except OSError as error:
        raise StoreError(f"{path}: cannot be read ({error.strerror})") from error


def write_views(database: HasViews) -> None:
    """Write the views of a database, unless they are current.

    Raises:
        StoreError: the file cannot be written.
    """
    script = list(_statements(database))
    digest = hashlib.sha256("\n".join(script).encode()).hexdigest()
    marker = views_marker(database)
    try:
        if database.path.exists() and marker.is_file() and marker.read_text() == digest:
            return
        if not database.path.exists():
            _create(database.path, script)
        elif not _replace_views(database.path, script):
            return  # open elsewhere; a later ingest renews them
        marker.write_text(digest)
    except OSError as error:
        raise StoreError(f"{database.path}: cannot be written ({error.strerror})") from error
    except duckdb.Error as error:
        reason = str(error).splitlines()[0]
        raise StoreError(f"{database.path}: its views cannot be written ({reason})") from error


def views_marker(database: HasViews) -> Path:
    """Return the file with the hash of the current views."""
    return database.traces_directory / ".views"


def _create(path: Path, script: list[str]) -> None:
    # Linked into place, because another process may create it first.
    remove_abandoned(path.parent, path.name)
    with (
        # DuckDB cannot write where the path has a question mark or a backslash.
        temporary_directory() as scratch,
        tempfile.TemporaryDirectory(prefix=private_prefix(path), dir=path.parent) as beside,
    ):
        built = Path(scratch) / "views.duckdb"
        # Further threads take 20 ms to start and have nothing to do.
        with duckdb.connect(built, config={"threads": 1}) as connection:
            connection.execute("BEGIN")  # one, rather than one per statement
            for statement in script:
                connection.execute(statement)
            connection.execute("COMMIT")
        copied = shutil.copyfile(built, Path(beside) / path.name)
        with contextlib.suppress(FileExistsError):
            os.link(copied, path)


def _replace_views(path: Path, script: list[str]) -> bool:
    # Other objects that a user keeps in the file stay. False if another process has it open.
    try:
        connection = duckdb.connect(path)
    except duckdb.IOException as error:
        if "lock" in str(error):
            return False
        raise
    with connection:
        connection.execute("BEGIN")
        for statement in script:
            connection.execute(statement)
        connection.execute("COMMIT")
    return True


def _statements(database: HasViews) -> Iterator[str]:
    root = database.traces_directory.resolve()
    for table in canonical_tables().values():
        files = f"{_TRACE}/{files_pattern(table.name)}"
        # A pattern that matches nothing, which DuckDB takes for an error: without any trace, or if
        # an older version without the table has written all of them.
        if next(root.glob(files), None) is None:
            yield f"CREATE OR REPLACE VIEW {table.name} AS {table.empty_select}"
        else:
            pattern = string(f"{glob_escaped(root)}/{files}")
            rows = f"SELECT * FROM read_parquet({pattern}, hive_partitioning = false)"
            yield f"CREATE OR REPLACE VIEW {table.name} AS {rows}"
        yield f"COMMENT ON VIEW {table.name} IS {string(table.doc)}"
    for name, path in resources.sql_files("derive").items():
        sql = path.read_text(encoding="utf-8")
        header = _HEADER.match(sql)
        if header and _IS_VIEW.search(header["toml"]):
            yield f"CREATE OR REPLACE VIEW {name} AS {sql[header.end() :]}"
            title = tomllib.loads(header["toml"])["title"]
            yield f"COMMENT ON VIEW {name} IS {string(title)}"
    for file in sorted(resources.data().glob("*.csv")):
        name = identifier(file.stem)
        yield f"CREATE OR REPLACE TABLE {name} AS {csv_relation(file)}"
