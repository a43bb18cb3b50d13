"""The Nsight Systems that is installed: where it is, what it knows, what it needs."""

from __future__ import annotations

import functools
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tbd_collectors.process import CollectionError, not_installed
from tbd_trace import machine, nsys_install

_HELP_TIMEOUT_S = 30
_VERSION = re.compile(r"\b(\d{4}(?:\.\d+)+)")
_OPTION = re.compile(r"^\s+(?:-\w, )?(--[a-z][a-z0-9-]*)", re.MULTILINE)
_TRACE_HELP = re.compile(r"^\s*-t, --trace=(.*?)(?=\n\s*--?\w)", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Nsys:
    """An installed nsys.

    Attributes:
        path: the program.
        version: such as ``2022.4.2.1``.
        options: the options of ``nsys profile``, with their dashes.
        traces: the values of its ``--trace``.
    """

    path: Path
    version: str
    options: frozenset[str]
    traces: frozenset[str]


# What every nsys since 2022 knows of what is asked here: for showing a command line without one.
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
    """Return the nsys on PATH.

    Raises:
        CollectionError: there is none, or it does not run.
    """
    found = nsys_install.find()
    if found is None:
        raise not_installed(machine.nsys())
    return _examined(str(found.program))


@functools.cache
def _examined(path: str) -> Nsys:
    version = _VERSION.search(_said([path, "--version"]))
    text = _said([path, "profile", "--help"])
    traces = _TRACE_HELP.search(text)
    if version is None or traces is None:
        raise CollectionError(f"{path}: does not answer as Nsight Systems does; reinstall it")
    return Nsys(
        Path(path),
        version[1],
        frozenset(_OPTION.findall(text)),
        frozenset(re.findall(r"'([\w-]+)'", traces[1])),
    )


def _said(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_HELP_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CollectionError(f"{command[0]}: cannot be run ({error}); reinstall it") from error
    return done.stdout + done.stderr


def environment() -> dict[str, str]:
    """Return the variables that recording needs, to be added to those of this process.

    Frameworks and Python use NVTX strings that are not registered, which capture ranges skip by
    default.
    """
    found = nsys_install.find()
    return {"NSYS_NVTX_PROFILER_REGISTER_ONLY": "0", **(found.environment() if found else {})}
