"""The Nsight Systems that is installed: its program, its importer, and what it must be told."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HOME_VARIABLE = "QUADD_INSTALL_DIR"
"""Environment variable that shows nsys where it is installed."""

_IMPORTER = "host-*/QdstrmImporter"


@dataclass(frozen=True, slots=True)
class Installation:
    """An installed Nsight Systems.

    Attributes:
        program: ``nsys``, as PATH has it.
        importer: the program that turns ``.qdstrm`` files into reports; None when it is not found
            here, as in packages that hold the target part alone.
    """

    program: Path
    importer: Path | None

    def environment(self) -> dict[str, str]:
        """Return the variables that nsys needs, to be added to those of this process.

        nsys looks for its importer beside the program that its links lead to. Debian's package
        keeps them apart, so there it must be told; what the user set stays.
        """
        if self.importer is None or HOME_VARIABLE in os.environ:
            return {}
        if _importer(self.program.resolve().parent.parent) is not None:
            return {}
        return {HOME_VARIABLE: str(self.importer.parent.parent)}


def find() -> Installation | None:
    """Return the Nsight Systems on PATH, None if there is none."""
    path = shutil.which("nsys")
    if path is None:
        return None
    found = (_importer(home) for home in _homes(Path(path)))
    return Installation(Path(path), next((one for one in found if one is not None), None))


def _homes(program: Path) -> Iterator[Path]:
    """Yield where nsys may be installed: what the user says, then along its links."""
    if HOME_VARIABLE in os.environ:
        yield Path(os.environ[HOME_VARIABLE])
    for link in (*_links(program), program.resolve()):
        yield link.parent.parent


def _links(path: Path) -> Iterator[Path]:
    """Yield a path and what it links to, step by step."""
    yield path
    while path.is_symlink():
        path = path.parent / path.readlink()
        yield path


def _importer(home: Path) -> Path | None:
    return next(iter(sorted(home.resolve().glob(_IMPORTER))), None)
