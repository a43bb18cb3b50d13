"""Find out whether Linux has killed processes because the host's memory ran out."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

_COUNTERS = Path("/proc/vmstat")


def oom_kills() -> int:
    """Return the processes that the OOM killer has ended since the boot; 0 if unknown.

    Those of containers count, too (https://docs.kernel.org/admin-guide/cgroup-v2.html).
    """
    with suppress(OSError, ValueError):
        for line in _COUNTERS.read_text("ascii").splitlines():
            name, _, value = line.partition(" ")
            if name == "oom_kill":
                return int(value)
    return 0
