"""Find the installed Nsight Systems and read its version and options."""

from __future__ import annotations

import functools
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tbd_collectors.process import CollectionError, not_installed
from tbd_trace.machine import inspection, nsys_install

_HELP_TIMEOUT_S = 30
_VERSION = re.compile(r"\b(\d{4}(?:\.\d+)+)")
_OPTION = re.compile(r"^\s+(?:-\w, )?(--[a-z][a-z0-9-]*)", re.MULTILINE)
_TRACE_HELP = re.compile(r"^\s*-t, --trace=(.*?)(?=\n\s*--?\w)", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Nsys:
    """An installed nsys."""

    path: Path
    version: str  # such as 2022.4.2.1
    options: frozenset[str]  # of `nsys profile`, with their dashes
    traces: frozenset[str]  # values of its --trace


# Options of every nsys since 2022, to show a command line (--dry-run) where nsys is missing.
USUAL = Nsys(
    path=Path("nsys"),
    version="",
    options=frozenset(
        (
            *("--trace", "--sample", "--cpuctxsw", "--capture-range", "--capture-range-end"),
            *("--nvtx-capture", "--gpu-metrics-device", "--cuda-memory-usage"),
            *("--force-overwrite", "--output"),
        )
    ),
    traces=frozenset(("cuda", "nvtx", "cudnn", "cublas", "osrt")),
)


def installed() -> Nsys:
    """Return nsys from PATH; raise CollectionError if it is missing or does not run."""
    installation = nsys_install.find()
    if installation is None:
        raise not_installed(inspection.nsys())
    return _inspect(str(installation.program))


@functools.cache
def _inspect(path: str) -> Nsys:
    version = _VERSION.search(_output([path, "--version"]))
    # Options come and go between releases; the help text is the only list of them.
    text = _output([path, "profile", "--help"])
    traces = _TRACE_HELP.search(text)
    if version is None or traces is None:
        raise CollectionError(f"{path}: does not answer as Nsight Systems does; reinstall it")
    return Nsys(
        Path(path),
        version[1],
        frozenset(_OPTION.findall(text)),
        frozenset(re.findall(r"'([\w-]+)'", traces[1])),
    )


def _output(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_HELP_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CollectionError(f"{command[0]}: cannot be run ({error}); reinstall it") from error
    return done.stdout + done.stderr


def environment() -> dict[str, str]:
    """Return the environment variables for recording, to add to those of this process."""
    # Capture ranges match registered NVTX strings only, unless this variable is 0; frameworks and
    # Python use unregistered strings.
    installation = nsys_install.find()
    return {
        "NSYS_NVTX_PROFILER_REGISTER_ONLY": "0",
        **(installation.environment() if installation else {}),
    }
