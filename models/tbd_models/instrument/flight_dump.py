"""Write a Flight Recorder dump of this rank at a time that ``tbd-trace collect --ranks`` sets."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

# The file to write, and the time at which to write it, in seconds of the epoch.
DUMP_VARIABLE = "TBD_TRACE_FLIGHT_DUMP"
AT_VARIABLE = "TBD_TRACE_FLIGHT_DUMP_AT"
_started = threading.Event()


def dump_later() -> None:
    """Start a thread that writes the dump if the program still runs at the time; only once.

    A thread can, where a signal handler cannot: the main thread waits in a collective, without the
    GIL.
    """
    path, at = os.environ.get(DUMP_VARIABLE), os.environ.get(AT_VARIABLE)
    if path and at and not _started.is_set():
        _started.set()
        threading.Thread(target=_dump_at, args=(path, float(at)), daemon=True).start()


def _dump_at(path: str, at: float) -> None:
    while (rest := at - time.time()) > 0:
        time.sleep(min(rest, 1.0))
    # The recorder of PyTorch may be missing, or the disk full: the program goes on.
    with suppress(Exception):
        records = _records()
        part = Path(f"{path}.part")
        part.write_bytes(records)
        part.replace(path)


def _records() -> bytes:
    import torch.distributed as dist  # noqa: PLC0415 - the program has imported it

    # Both are without types. Builds of PyTorch for the CPU lack NCCL's recorder.
    c10d: Any = import_module("torch._C._distributed_c10d")
    of_nccl = getattr(c10d, "_dump_nccl_trace", None)
    if of_nccl is not None and dist.is_initialized() and dist.get_backend() == "nccl":
        return bytes(of_nccl())
    return bytes(c10d._dump_fr_trace())
