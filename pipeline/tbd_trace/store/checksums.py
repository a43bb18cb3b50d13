"""Checksums of a trace's files: written at ingest, compared when a table is read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from tbd_trace.runtime.crc import crc32_of

FILE = "checksums.json"


class Checksums:
    """Compares the files of traces with their checksums, once per size and time of a file."""

    def __init__(self) -> None:
        self._listed: dict[tuple[Path, int, int], dict[str, int]] = {}
        self._sound: dict[Path, tuple[int, int, int]] = {}

    def problems(self, directory: Path, table: str = "") -> Iterator[str]:
        """Yield the faults of a trace's files.

        Args:
            directory: of the trace; without checksums, as of older versions, nothing is compared.
            table: canonical table whose files are compared, by default all.
        """
        try:
            listed = self._of(directory)
        except OSError:
            return
        except (ValueError, TypeError, AttributeError):
            yield f"{FILE} cannot be read"
            return
        for name, expected in listed.items():
            is_compared = not table or name.partition(".")[0] == table
            if is_compared and (problem := self._problem(directory / name, expected)):
                if self._is_replaced(directory, listed):
                    yield from self.problems(directory, table)
                    return
                yield problem

    def lists_table(self, directory: Path, table: str) -> bool:
        """Return False if a trace has no file of a canonical table: its version lacked the table.

        Without readable checksums, the answer is True.
        """
        try:
            listed = self._of(directory)
        except (OSError, ValueError, TypeError, AttributeError):
            return True
        return not listed or any(name.partition(".")[0] == table for name in listed)

    def _is_replaced(self, directory: Path, listed: dict[str, int]) -> bool:
        try:
            return self._of(directory) is not listed
        except (OSError, ValueError):
            return False

    def _of(self, directory: Path) -> dict[str, int]:
        # A trace that is removed and ingested again has other files.
        state = (directory / FILE).stat()
        key = (directory, state.st_ino, state.st_mtime_ns)
        if key not in self._listed:
            listed = json.loads((directory / FILE).read_bytes())
            self._listed[key] = {name: int(value) for name, value in listed.items()}
        return self._listed[key]

    def _problem(self, file: Path, expected: int) -> str | None:
        try:
            state = file.stat()
            current = (state.st_ino, state.st_size, state.st_mtime_ns)
            if self._sound.get(file) != current and crc32_of(file) != expected:
                return f"{file.name} differs from its checksum"
        except FileNotFoundError:
            return f"{file.name} is missing"
        except OSError as error:
            return f"{file.name} cannot be read: {error.strerror}"
        self._sound[file] = current
        return None


def problems_of(traces_directory: Path, trace_ids: Iterable[str]) -> list[str]:
    """Return the faults of all files of some traces, each with the path of its directory."""
    checksums = Checksums()
    traces = [traces_directory / trace_id for trace_id in trace_ids]
    return [f"{trace}: {problem}" for trace in traces for problem in checksums.problems(trace)]


def update_checksum(directory: Path, file: Path) -> None:
    """Renew the checksum of one file of a directory.

    Raises:
        OSError: a file cannot be read or written.
    """
    place = directory / FILE
    if place.is_file():  # older versions wrote none
        listed = json.loads(place.read_bytes()) | {file.name: crc32_of(file)}
        place.write_text(json.dumps(listed), encoding="utf-8")


def write_checksums(directory: Path) -> None:
    """Write the checksums of the Parquet files of a directory.

    Raises:
        OSError: a file cannot be read or written.
    """
    listed = {file.name: crc32_of(file) for file in sorted(directory.glob("*.parquet"))}
    (directory / FILE).write_text(json.dumps(listed), encoding="utf-8")
