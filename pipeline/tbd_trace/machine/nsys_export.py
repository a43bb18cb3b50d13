"""Export reports of Nsight Systems to SQLite with the installed nsys."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tbd_trace.errors import InputError
from tbd_trace.machine import nsys_install
from tbd_trace.machine.nsys_install import Installation

TIMEOUT_S = 3600
"""Default time limit of each step of an export in seconds."""
STREAM_MAGIC = b"NVIDIA Nsight Systems Stream"
"""Magic bytes of .qdstrm files, after a prefix of varying length."""
MAGIC_BYTES = 64
"""Number of bytes at the start of a file to search for the magic."""

# A report has metadata with the version of nsys at its end, a stream at its start.
_TAIL_BYTES = 65_536
_VERSION = re.compile(rb"\b(20\d\d(?:\.\d+){2,3})-[0-9a-f]{6,}")
_PROGRESS = re.compile(r"\[=*\d+%\s*\]")


def made_by(path: Path) -> str | None:
    """Return the version of nsys that wrote a report, None if unknown or ambiguous.

    Raises:
        InputError: the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            head = file.read(MAGIC_BYTES)
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            tail = file.read()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    versions = {
        match.decode() for match in _VERSION.findall(head if STREAM_MAGIC in head else tail)
    }
    return versions.pop() if len(versions) == 1 else None


def export(report: Path, sqlite: Path, *, timeout_s: float = TIMEOUT_S) -> None:
    """Export a report to SQLite with the installed nsys.

    Args:
        report: a ``.nsys-rep``, ``.qdrep`` or ``.qdstrm`` file. A stream is first imported into a
            ``.nsys-rep`` file beside the export.
        sqlite: output file; an existing file is replaced.
        timeout_s: time limit of each step in seconds.

    Raises:
        InputError: nsys or its importer is not installed, or fails; the message quotes nsys.
    """
    installed = nsys_install.find()
    if installed is None:
        version = made_by(report) or "of the version that made it"
        importing = "import it (`QdstrmImporter -i FILE`), " if _is_stream(report) else ""
        raise InputError(
            f"{report}: an Nsight Systems report, which only nsys can read: put nsys {version} "
            f"or newer on PATH; or, where it is installed, {importing}run "
            "`nsys export --type sqlite FILE` and ingest the .sqlite file"
        )
    step = _Step(report, installed, timeout_s)
    source = report
    if _is_stream(report):
        source = sqlite.with_suffix(".nsys-rep")
        importer = _importer(report, installed)
        with tempfile.TemporaryDirectory(dir=sqlite.parent) as directory:
            # The importer appends to a stream whose nsys had no importer.
            copy = shutil.copyfile(report, Path(directory) / report.name)
            step.run([importer, "-i", str(copy), "-o", str(source)], source)
    options = ["export", "--type=sqlite", "--force-overwrite=true", f"--output={sqlite}"]
    step.run([str(installed.program), *options, str(source)], sqlite)


def _is_stream(report: Path) -> bool:
    try:
        with report.open("rb") as file:
            return STREAM_MAGIC in file.read(MAGIC_BYTES)
    except OSError as error:
        raise InputError(f"{report}: cannot be read ({error.strerror})") from error


def _importer(report: Path, installed: Installation) -> str:
    if installed.importer is None:
        raise InputError(
            f"{report}: a .qdstrm file, and the installed nsys has no QdstrmImporter: import it "
            f"where nsys {made_by(report) or 'that made it'} is fully installed "
            "(QdstrmImporter -i FILE) and ingest the .nsys-rep file"
        )
    return str(installed.importer)


@dataclass(frozen=True, slots=True)
class _Step:
    report: Path
    installed: Installation
    timeout_s: float

    def run(self, command: list[str], result: Path) -> None:
        environment = os.environ | self.installed.environment()
        code, output = _output_of(command, self.timeout_s, environment)
        # nsys may exit with 0 without a result.
        if code == 0 and result.is_file():
            return
        if code is None:
            raise InputError(
                f"{self.report}: nsys did not finish within {self.timeout_s:g} s; export it "
                "yourself"
            )
        version = _version(self.installed.program)
        raise InputError(
            f"{self.report}: {_failure(_last_line(output), made_by(self.report), version)}"
        )


def _output_of(
    command: list[str], timeout_s: float, environment: Mapping[str, str] | None = None
) -> tuple[int | None, str]:
    # The exit code is None after a timeout. A file instead of a pipe, because background processes
    # of nsys keep the pipe open.
    with tempfile.TemporaryFile() as output:
        # In a new session, so that the background processes can be killed with it.
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code: int | None = process.wait(timeout_s)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            code = None
        output.seek(0)
        return code, output.read().decode("utf-8", "replace")


def _last_line(output: str) -> str:
    # Progress bars are overwritten with carriage returns.
    lines = [line.strip() for line in re.split(r"[\r\n]", output)]
    messages = [line for line in lines if line and not _PROGRESS.search(line)]
    return messages[-1][:300] if messages else "no output"


def _version(nsys: Path) -> str | None:
    _, output = _output_of([str(nsys), "--version"], 60)
    match = re.search(r"\d{4}(?:\.\d+)+", output)
    return match[0] if match else None


def _failure(message: str, report: str | None, installed: str | None) -> str:
    # nsys reads reports of older versions, but not of newer ones.
    if report and installed and _numbers(report) > _numbers(installed):
        return (
            f"made by nsys {report}, which the installed nsys {installed} is too old to read "
            f"({message}); install nsys {report} or newer"
        )
    return (
        f"nsys {installed or '(unknown version)'} cannot export this report"
        f"{f' made by nsys {report}' if report else ''} ({message}); copy it again if it is "
        "damaged, or export it where it was made and ingest the .sqlite file"
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
