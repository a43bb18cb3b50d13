"""Running the program as its users do, and seeing what it left behind."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from corpus import ROOT
from requirements import require
from tbd_trace.cli.main import app

SAMPLE = ROOT / "data" / "samples" / "synthetic_cnn"
TIMELINE = SAMPLE / "timeline.sqlite"
METRICS = SAMPLE / "metrics.csv"

_INSTALLED = Path(sys.executable).with_name("tbd-trace")
PROGRAM = (
    [str(_INSTALLED)]
    if _INSTALLED.is_file()
    else [sys.executable, "-c", "from tbd_trace.__main__ import main; main()"]
)
# Root may read and write everything, but for these two powers; others lack them anyway.
_POWERLESS = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")


@dataclass(frozen=True)
class Outcome:
    """What a command did: its exit code and what it wrote."""

    code: int
    out: str
    err: str


def start(*arguments: object, **options: Any) -> subprocess.Popen[str]:
    """Start the program; options are those of ``Popen``."""
    usual: dict[str, Any] = {
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "text": True,
        "encoding": "utf-8",
        "errors": "replace",
    }
    prefix = options.pop("prefix", ())
    command = [*prefix, *PROGRAM, *(os.fspath(a) if isinstance(a, Path) else a for a in arguments)]
    return subprocess.Popen(command, **(usual | options))


def end(process: subprocess.Popen[str], timeout: float = 60) -> Outcome:
    """Wait for the program."""
    out, err = process.communicate(timeout=timeout)
    return Outcome(process.returncode, out or "", err or "")


def run(*arguments: object, **options: Any) -> Outcome:
    """Run the program as a process of its own."""
    return end(start(*arguments, **options))


def run_powerless(*arguments: object) -> Outcome:
    """Run the program so that the permissions of files count, even for root."""
    if os.geteuid() != 0:
        return run(*arguments)
    require("setpriv")
    return run(*arguments, prefix=_POWERLESS)


def invoke(*arguments: object, stdin: str | None = None) -> Outcome:
    """Run the program in this process, where a process of its own would test nothing more."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Outcome(result.exit_code, result.stdout, result.stderr)


def complaint(outcome: Outcome, code: int) -> str:
    """Return the one line that a command complained with; notes may stand beside it."""
    assert outcome.code == code, outcome
    assert outcome.out == ""
    [line] = [line for line in outcome.err.splitlines() if not line.startswith("note: ")]
    assert line.startswith("error: ")
    assert "Traceback" not in line
    assert "bug in tbd-trace" not in line
    return line


def state(*places: Path) -> dict[str, str]:
    """Return all that is at and below some places, with the hashes of files."""
    paths = [path for place in places for path in (place, *place.rglob("*"))]
    return {str(path): _digest(path) for path in paths if path.exists()}


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "directory"


def beside(database: Path) -> tuple[Path, Path]:
    """Return the two places where a database lies."""
    return database, database.with_name(database.name.removesuffix(".duckdb") + ".traces")


def changed(path: Path, edit: Callable[[bytes], bytes], source: Path = TIMELINE) -> Path:
    """Write an altered copy of a file."""
    path.write_bytes(edit(source.read_bytes()))
    return path


def rows(outcome: Outcome) -> Sequence[str]:
    """Return the rows of a CSV answer, without the header."""
    assert outcome.code == 0, outcome
    return outcome.out.splitlines()[1:]
