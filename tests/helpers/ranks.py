"""Running ``tbd-trace collect --ranks``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tbd_collectors.network_namespaces import PREFIX

TIMEOUT_S = 280


def collect(*words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ``tbd-trace collect`` on a CPU."""
    return subprocess.run(
        [sys.executable, "-m", "tbd_trace", "collect", "--device", "cpu", *map(str, words)],
        capture_output=True,
        text=True,
        env=os.environ | environment,
        timeout=TIMEOUT_S,
        check=False,
    )


def job(capture: Path) -> dict[str, Any]:
    """Return the content of job.json."""
    content: dict[str, Any] = json.loads((capture / "job.json").read_text(encoding="utf-8"))
    return content


def namespaces() -> list[str]:
    """Return the names of the machine's network namespaces."""
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=False)
    return [line.split()[0] for line in listed.stdout.splitlines() if line.strip()]


def left_namespaces() -> list[str]:
    """Return the namespaces of runs that ended. Tests that run at the same time have their own."""
    pids = {name: name.removeprefix(PREFIX).split("-")[0] for name in namespaces()}
    return [n for n, pid in pids.items() if pid.isdigit() and not Path("/proc", pid).exists()]
