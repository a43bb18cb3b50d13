"""Files and directories that are private until they are renamed to their target.

Their names contain the process that writes them, so that later processes can remove what a killed
one has left.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import tempfile
import threading
import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_NAME = re.compile(r"\.(?P<target>.+)\.(?P<machine>[0-9a-f]{8})-(?P<pid>\d+)\..*")


def private_prefix(target: Path) -> str:
    """Return the beginning of a name for a private file or directory beside ``target``."""
    return f".{target.name}.{_machine()}-{os.getpid()}."


def private_file(target: Path) -> Path:
    """Return a name beside ``target`` for a private file of this thread."""
    return target.with_name(f"{private_prefix(target)}{threading.get_ident()}")


def temporary_directory() -> tempfile.TemporaryDirectory[str]:
    """Make a directory for temporary files, which a later process removes if this one is killed."""
    place = shared_place()
    return tempfile.TemporaryDirectory(prefix=private_prefix(place), dir=place.parent)


def shared_place() -> Path:
    """Return the target of private files in the directory for temporary files (``TMPDIR``).

    The first call of a process removes the files of killed processes of this user.
    """
    place = Path(tempfile.gettempdir()) / "tbd-trace"
    _remove_abandoned_once(place)
    return place


@cache
def _remove_abandoned_once(place: Path) -> None:
    remove_abandoned(place.parent, place.name, owner=os.geteuid())


def remove_abandoned(directory: Path, target: str | None = None, owner: int | None = None) -> None:
    """Remove private files and directories whose process has ended; failures are ignored.

    Args:
        directory: where they are.
        target: name of their target, None for all.
        owner: id of the user to whom they belong, None for all users.
    """
    for entry in list(_entries(directory)):
        match = _NAME.fullmatch(entry.name)
        if match is None or target not in (None, match["target"]):
            continue
        if match["machine"] != _machine() or is_running(int(match["pid"])):
            continue
        with contextlib.suppress(OSError):
            if owner not in (None, entry.stat(follow_symlinks=False).st_uid):
                continue
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            else:
                Path(entry.path).unlink()


def _entries(directory: Path) -> Iterator[os.DirEntry[str]]:
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        yield from entries


@cache
def _machine() -> str:
    # Process ids are those of one machine, and of one container if it has its own.
    space = Path("/proc/self/ns/pid")
    number = space.stat().st_ino if space.exists() else 0
    return f"{zlib.crc32(f'{socket.gethostname()} {number}'.encode()):08x}"


def is_running(pid: int) -> bool:
    """Return True if this machine has a process with an id."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # of another user
        return True
    return True
