"""Find the installed Nsight Systems, its importer, and the environment that it needs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HOME_VARIABLE = "QUADD_INSTALL_DIR"
"""Environment variable of nsys with its installation directory."""

_IMPORTER = "host-*/QdstrmImporter"


@dataclass(frozen=True, slots=True)
class Installation:
    """Paths of the program ``nsys`` on PATH and of ``QdstrmImporter``."""

    program: Path
    # Converts .qdstrm files to reports; missing if only the target part is installed.
    importer: Path | None

    def environment(self) -> dict[str, str]:
        # nsys looks for its importer beside the target of its symbolic links. Debian installs both
        # in different directories, so the variable is needed. A value set by the user stays.
        if self.importer is None or HOME_VARIABLE in os.environ:
            return {}
        if _importer(self.program.resolve().parent.parent) is not None:
            return {}
        return {HOME_VARIABLE: str(self.importer.parent.parent)}


def find() -> Installation | None:
    """Return the installation of the nsys on PATH, None if there is none."""
    path = shutil.which("nsys")
    if path is None:
        return None
    importers = (_importer(home) for home in _homes(Path(path)))
    return Installation(
        Path(path), next((importer for importer in importers if importer is not None), None)
    )


def _homes(program: Path) -> Iterator[Path]:
    # The user's variable first, then the directories along the chain of links.
    if HOME_VARIABLE in os.environ:
        yield Path(os.environ[HOME_VARIABLE])
    for link in (*_links(program), program.resolve()):
        yield link.parent.parent


def _links(path: Path) -> Iterator[Path]:
    yield path
    while path.is_symlink():
        path = path.parent / path.readlink()
        yield path


def _importer(home: Path) -> Path | None:
    return next(iter(sorted(home.resolve().glob(_IMPORTER))), None)
