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
import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_NAME = re.compile(r"\.(?P<target>.+)\.(?P<machine>[0-9a-f]{8})-(?P<pid>\d+)\..*")


def private_prefix(target: Path) -> str:
    """Return the beginning of a name for a private file or directory beside ``target``."""
    return f".{target.name}.{_machine()}-{os.getpid()}."


def remove_abandoned(directory: Path, target: str | None = None) -> None:
    """Remove private files and directories whose process has ended; failures are ignored.

    Args:
        directory: where they are.
        target: name of their target, None for all.
    """
    for entry in list(_entries(directory)):
        found = _NAME.fullmatch(entry.name)
        if found is None or target not in (None, found["target"]):
            continue
        if found["machine"] != _machine() or is_running(int(found["pid"])):
            continue
        with contextlib.suppress(OSError):
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
