"""Execute the runs of a capture one after another and write its capture directory."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from tbd_collectors import gpu_detection
from tbd_collectors.capture_session import Result, Session
from tbd_collectors.capture_writer import written
from tbd_collectors.collection_request import Command, Profiling, Workload
from tbd_collectors.launcher import RankStart
from tbd_collectors.plan import runs
from tbd_collectors.process import NO_PERMISSION, NOT_FOUND, NotRunnableError
from tbd_trace.errors import UsageError
from tbd_trace.runtime.stop_signals import saving_records

__all__ = ["Result", "capability", "collect", "require_program"]


def _ignore(_text: str) -> None:
    pass


def collect(
    target: Workload | Command,
    profiling: Profiling,
    capture: Path,
    *,
    force: bool = False,
    compute_capability: str | None = None,
    say: Callable[[str], None] = _ignore,
    on_line: Callable[[str], None] = _ignore,
    shown: tuple[int, int] | None = None,
    launch: RankStart | None = None,
) -> Result:
    """Execute the runs of a capture and write its directory.

    A run that fails, exhausts memory or is interrupted still leaves a capture with its
    records: its status says so and ``NAME.log`` has the program's output. A command that trains
    is stopped when enough of it has been recorded.

    ``force`` replaces an existing capture, unless it has records and the new one has none; a
    ``compute_capability`` of None queries the driver; ``say`` gets a line before each step and
    ``on_line`` each line that the programs print. ``shown`` are the descriptors to which a
    command's streams go instead, as they are. ``launch`` starts the programs as one rank of a job.

    Raises:
        UsageError: the target cannot run as requested; no capture is written.
        StoreError: the directory cannot be written.
        CollectionError: a profiler is not installed, the command cannot be run or ended before it
            trained; no capture is written.
        KeyboardInterrupt: after Ctrl-C; the capture so far is written.
    """
    # The capability decides which counters exist; memory is recorded without counters.
    used = None if profiling.memory else compute_capability or capability(target)
    if isinstance(target, Command):
        require_program(target.arguments[0])
    with saving_records(), written(capture, force) as directory:
        session = Session(target, profiling, directory, say, on_line, shown=shown, launch=launch)
        planned = runs(target, profiling, directory, used, notes=session.notes)
        interrupt = session.execute(planned)
        result = session.finish(capture)
    if interrupt is not None:
        say(_interrupted(result))
        raise interrupt
    return result


def _interrupted(result: Result) -> str:
    if result.is_earlier_kept:
        return f"{result.reason}; nothing is recorded, and the earlier capture is kept"
    return result.reason if result.document["files"] else f"{result.reason}; nothing is recorded"


def require_program(name: str) -> None:
    """Raise NotRunnableError unless a program can be run."""
    # A profiler that cannot start the program says so by exit codes that mean other things, too.
    if shutil.which(name) is not None:
        return
    if shutil.which(name, os.F_OK) is not None or (os.sep in name and Path(name).is_dir()):
        raise NotRunnableError(name, os.strerror(errno.EACCES), NO_PERMISSION)
    raise NotRunnableError(name, os.strerror(errno.ENOENT), NOT_FOUND)


def capability(target: Workload | Command) -> str | None:
    """Return the target's compute capability, None on a CPU or an AMD GPU.

    Raises UsageError without a GPU.
    """
    if target.device != "cuda":
        return None
    if gpu_detection.is_amd():
        return None
    gpus = gpu_detection.gpus()
    if not gpus:
        raise UsageError("there is no GPU here (see tbd-trace doctor); use --device cpu")
    return gpus[0].compute_capability
