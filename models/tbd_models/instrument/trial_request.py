"""What ``tbd-trace try`` asks of a program, and what the program reports."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

VARIABLE = "TBD_TRACE_TRY"


@dataclass(frozen=True, slots=True)
class TrialRequest:
    """How one run of the program differs from it, and where it reports."""

    change: str | None  # NAME or NAME=ARGUMENT, None for the program as it is
    seed: int  # added to the program's seeds
    report: Path  # JSON file: losses, and files written outside of `directory`
    directory: Path  # working directory of the run
    is_timed: bool  # True if iterations are timed, and nothing is recorded

    def variables(self) -> dict[str, str]:
        """Return the environment variable that hands the request to the program."""
        return {VARIABLE: json.dumps(asdict(self), default=str)}


def requested() -> TrialRequest | None:
    """Return the request of the environment, None without one."""
    text = os.environ.get(VARIABLE)
    if not text:
        return None
    fields = json.loads(text)
    paths = {name: Path(fields[name]) for name in ("report", "directory")}
    return TrialRequest(**(fields | paths))


def name_and_argument(change: str) -> tuple[str, str]:
    """Divide ``workers=4`` into name and argument, which is empty without one."""
    name, _, argument = change.partition("=")
    return name, argument
