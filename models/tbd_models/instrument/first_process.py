"""Choose the process that is recorded, of all that a command starts."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from tbd_models.instrument.marks import EVERY_RANK_VARIABLE


def is_recorded(file: str | os.PathLike[str]) -> bool:
    """Return True if this process writes ``file``: of several that train, the first one.

    Launchers number their processes (``RANK``); number 0 is the first. Processes without numbers
    agree by ``file.process``, which holds the id of the first. With ``tbd-trace collect --ranks``
    each process has its own file. If the first one has ended without the file, another takes
    its place.
    """
    rank = os.environ.get("RANK")
    if rank is not None:
        return rank == "0" or bool(os.environ.get(EVERY_RANK_VARIABLE))
    holder = Path(f"{os.fspath(file)}.process")
    own = str(os.getpid())
    with suppress(OSError):
        descriptor = os.open(holder, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(descriptor, "w") as written:
            written.write(own)
        return True
    try:
        first = holder.read_text(encoding="utf-8")
    except OSError:  # the directory is not there any more: everything has been recorded
        return False
    if first == own:
        return True
    if _runs(first) or Path(file).exists():
        return False
    holder.write_text(own, encoding="utf-8")
    return True


def _runs(process_id: str) -> bool:
    # Without digits, another process is just writing its number.
    return not process_id.isdigit() or Path("/proc", process_id).exists()
