"""Names and labels of profiles on the command line of ``tbd-trace ingest``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tbd_trace.cli.output import failure, note
from tbd_trace.errors import InputError, UsageError

if TYPE_CHECKING:
    from tbd_trace.store.capture import CaptureFile

_SHOWN = 8  # names in a note


@dataclass(frozen=True, slots=True)
class Given:
    """Options about the profiles to ingest."""

    name: str | None  # name of the only profile
    labels: Sequence[str]  # NAME=VALUE
    file: Path | None  # CSV file of labels

    def files_of(self, paths: Sequence[Path]) -> tuple[list[CaptureFile], bool]:
        """Return the profiles of paths with names and labels, and True if a path has none.

        Raises:
            InputError: a file of labels is invalid.
            UsageError: a label is invalid, or a name is for several profiles.
        """
        from tbd_trace.store.labels import file_labels, labelled, parsed, read_labels  # noqa: PLC0415

        labels = parsed(self.labels)
        listed = read_labels(self.file) if self.file else {}
        files: list[CaptureFile] = []
        failed = False
        for path in paths:
            try:
                profiles, own = _profiles(path)
            except InputError as error:
                failure(error)
                failed = True
                continue
            files += [
                labelled(file, {**file_labels(own | listed, file), **labels}) for file in profiles
            ]
        if self.name is None:
            return files, failed
        if len(files) != 1:
            raise UsageError(f"--name: is for one profile, not for {len(files)}; name one")
        if not self.name.strip():
            raise UsageError("--name: the name is empty; name the profile")
        return [replace(files[0], name=self.name.strip(), is_named=True)], failed


def _profiles(path: Path) -> tuple[list[CaptureFile], dict[str, dict[str, str | int | bool]]]:
    from tbd_trace.store.capture import profiles_in  # noqa: PLC0415 - imports readers
    from tbd_trace.store.labels import FILE, read_labels  # noqa: PLC0415

    profiles, others = profiles_in(path)
    own = read_labels(path / FILE) if FILE in others else {}
    skipped = [name for name in others if name != FILE]
    if skipped:
        more = f" and {len(skipped) - _SHOWN} more" if len(skipped) > _SHOWN else ""
        note(f"{path}: skipped other files: {', '.join(skipped[:_SHOWN])}{more}")
    return profiles, own
