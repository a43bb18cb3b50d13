"""``tbd-trace collect`` of the scripts in interpreters/zero_edit, and what its captures hold."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import tbd_trace

SCRIPTS = Path(__file__).parents[1] / "interpreters" / "zero_edit"


def words(*more: str | Path) -> list[str]:
    options = ("collect", "--device", "cpu", "--profiler", "torch")
    return [sys.executable, "-m", "tbd_trace", *options, *map(str, more)]


def collect(*more: str | Path, timeout: float = 120, **options: Any) -> Any:
    return subprocess.run(
        words(*more),
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        **options,
    )


def document(capture: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((capture / "capture.json").read_text(encoding="utf-8"))
    return content


def labels(capture: Path) -> list[str]:
    found: list[str] = tbd_trace.open(capture).query("iteration_timing")["label"].to_list()
    return found


def causes(capture: Path) -> dict[str, float]:
    """Return the share of each cause in percent."""
    asked = subprocess.run(
        [sys.executable, "-m", "tbd_trace", "why", capture, "--format", "json"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return {entry["cause"]: entry["share_pct"] for entry in json.loads(asked.stdout)["causes"]}


def numbered(first: int, count: int) -> list[str]:
    return [f"iteration {n}" for n in range(first, first + count)]
