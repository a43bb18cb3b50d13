"""What this machine can collect and analyse, found by looking, without starting a profile."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from tbd_trace import nsys_install
from tbd_trace.errors import UsageError

_LIBRARIES = ("duckdb", "polars", "pyarrow", "matplotlib")
FRAMEWORKS = {
    "pytorch": ("torch",),
    "tensorflow": ("tensorflow", "tensorflow-cpu"),
    "mxnet": ("mxnet", "mxnet-cu112"),
}
"""Packages that bring each framework, as pip calls them."""

# Later versions of the package record nothing under the profilers that were tried.
NVTX_VERSION = "0.2.11"
_ASKED_PACKAGES = (
    *(package for packages in FRAMEWORKS.values() for package in packages),
    *("transformers", "numpy", "nvtx"),
)
_TIMEOUT_SECONDS = 20
_PROC = Path("/proc")
_VERSION = re.compile(r"(\d+\.\d+[\d.]*)")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at.

    Attributes:
        check: what was looked at.
        status: ``ok``, ``limited`` (works in part) or ``missing``.
        found: what is there.
        advice: what to do about it, empty when there is nothing to do.
    """

    check: str
    status: str
    found: str
    advice: str = ""


def examine(pythons: Mapping[str, str] | None = None) -> list[Finding]:
    """Return what was found about Python, the profilers, the frameworks, the GPU and permissions.

    Args:
        pythons: interpreter by framework; where none is given it is this one.
    """
    used = dict.fromkeys(FRAMEWORKS, sys.executable) | dict(pythons or {})
    return [
        Finding("python", "ok", platform.python_version()),
        *(Finding(name, "ok", metadata.version(name)) for name in _LIBRARIES),
        nsys(),
        nvprof(),
        ncu(),
        *(framework(name, python) for name, python in used.items()),
        *gpus(),
        counters(),
        cpu_sampling(),
    ]


def nsys() -> Finding:
    """Look for Nsight Systems and for its importer, without which it makes no reports."""
    installed = nsys_install.find()
    if installed is None:
        return Finding(
            "nsys",
            "missing",
            "not on PATH",
            "install Nsight Systems (Debian: nsight-systems, component non-free) "
            "to collect timelines and to read .nsys-rep files",
        )
    program = str(installed.program)
    found = f"{_version([program, '--version'])} ({program})"
    if installed.importer is not None:
        return Finding("nsys", "ok", f"{found}, importer {installed.importer}")
    return Finding(
        "nsys",
        "limited",
        f"{found}; its importer is not found, so it may leave .qdstrm files",
        "install the whole of Nsight Systems, not its target part alone, or name its directory: "
        f"export {nsys_install.HOME_VARIABLE}=DIRECTORY",
    )


def nvprof() -> Finding:
    """Look for nvprof."""
    path = shutil.which("nvprof")
    if path is None:
        return Finding(
            "nvprof",
            "missing",
            "not on PATH",
            "only for GPUs before compute capability 8.0: install the CUDA toolkit up to 12 "
            "(Debian: nvidia-profiler, component non-free)",
        )
    return Finding("nvprof", "ok", f"{_version([path, '--version'])} ({path})")


def ncu() -> Finding:
    """Look for Nsight Compute."""
    path = shutil.which("ncu")
    if path is None:
        return Finding(
            "ncu",
            "missing",
            "not on PATH",
            "install Nsight Compute (Debian: nsight-compute, component non-free) "
            "to collect hardware counters",
        )
    return Finding("ncu", "ok", f"{_version([path, '--version'])} ({path})")


def gpus() -> list[Finding]:
    """Look for NVIDIA GPUs and their driver: one finding per GPU, or one that says why not."""
    path = shutil.which("nvidia-smi")
    rows = _lines(
        [path, "--query-gpu=name,driver_version", "--format=csv,noheader"] if path else []
    )
    named = [row.rsplit(", ", 1) for row in rows if ", " in row]
    if named:
        return [Finding("gpu", "ok", f"{name}, driver {driver}") for name, driver in named]
    driver = _PROC / "driver" / "nvidia" / "version"
    if driver.is_file():
        version = _VERSION.search(driver.read_text())
        found = f"driver {version[1] if version else 'of unknown version'}; nvidia-smi lists no GPU"
        return [
            Finding("gpu", "limited", found, "reload the driver, or give the container the GPU")
        ]
    return [
        Finding(
            "gpu",
            "missing",
            "no NVIDIA driver",
            "profiles are read here; tbd-trace collect --device cpu records ranges alone",
        )
    ]


def interpreter(python: str = sys.executable) -> dict[str, str]:
    """Return the versions of the frameworks, numpy and nvtx that an interpreter has installed.

    Raises:
        UsageError: it is not a Python interpreter that runs.
    """
    script = (
        "import importlib.metadata as m, json, sys\n"
        "found = {'python': sys.version.split()[0]}\n"
        f"for name in {_ASKED_PACKAGES}:\n"
        "    try: found[name] = m.version(name)\n"
        "    except Exception: pass\n"
        "print(json.dumps({name: version for name, version in found.items() if version}))"
    )
    said = _lines([python, "-c", script])
    try:
        versions = json.loads(said[-1]) if said else {}
    except ValueError:
        versions = {}
    if not isinstance(versions, dict) or "python" not in versions:
        raise UsageError(f"{python} is no Python interpreter that runs; name one with --python")
    return versions


def framework_version(name: str, versions: Mapping[str, str]) -> str | None:
    """Return the version of a framework among installed packages, None if it is not there.

    Args:
        name: ``pytorch``, ``tensorflow`` or ``mxnet``.
        versions: version by package, from :func:`interpreter`.
    """
    return next((versions[package] for package in FRAMEWORKS[name] if package in versions), None)


def framework(name: str, python: str = sys.executable) -> Finding:
    """Look for a framework, and for an nvtx that records, in an interpreter."""
    try:
        versions = interpreter(python)
    except UsageError:
        advice = f"tbd-trace env create {name} --force"
        return Finding(name, "missing", f"{python} does not run", advice)
    if framework_version(name, versions) is None:
        advice = f"tbd-trace env create {name}, to train its workloads"
        return Finding(name, "missing", f"not installed ({python})", advice)
    shown = [*FRAMEWORKS[name], "numpy", "nvtx"]
    found = ", ".join(f"{package} {versions[package]}" for package in shown if package in versions)
    status, advice = _nvtx(versions.get("nvtx"))
    return Finding(name, status, f"{found} ({python})", advice)


def _nvtx(version: str | None) -> tuple[str, str]:
    """Return what an interpreter's nvtx does to a framework's status, and what to do about it."""
    advice = f"pip install nvtx=={NVTX_VERSION}, or the workloads' ranges are not recorded"
    if version is None:
        return "limited", f"nvtx is not installed: {advice}"
    if _numbers(version) > _numbers(NVTX_VERSION):
        return "limited", f"nsys does not see this nvtx: {advice}"
    return "ok", ""


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def counters() -> Finding:
    """Look whether hardware counters may be read by this user."""
    parameters = _PROC / "driver" / "nvidia" / "params"
    if not parameters.is_file():
        return Finding("hardware counters", "missing", "no NVIDIA driver")
    match = re.search(r"^RmProfilingAdminOnly:\s*(\d+)", parameters.read_text(), re.MULTILINE)
    if match is None:
        return Finding("hardware counters", "limited", "the driver does not say who may read them")
    if match[1] == "0":
        return Finding("hardware counters", "ok", "open to all users")
    if os.geteuid() == 0:
        return Finding("hardware counters", "ok", "open to the administrator, as this process is")
    return Finding(
        "hardware counters",
        "limited",
        "open to the administrator only (RmProfilingAdminOnly: 1)",
        "load the module nvidia with NVreg_RestrictProfilingToAdminUsers=0, or run ncu as root",
    )


def cpu_sampling() -> Finding:
    """Look whether nsys may sample the CPU (perf_event_paranoid at most 2)."""
    setting = _PROC / "sys" / "kernel" / "perf_event_paranoid"
    try:
        level = int(setting.read_text())
    except (OSError, ValueError):
        return Finding("cpu sampling", "missing", "the kernel has no perf events")
    found = f"perf_event_paranoid is {level}"
    if level <= 2:
        return Finding("cpu sampling", "ok", found)
    return Finding(
        "cpu sampling", "limited", found, "sysctl kernel.perf_event_paranoid=2, or nsys -s none"
    )


def storage(check: str, path: Path, contents: str) -> Finding:
    """Describe a place where traces are stored.

    Args:
        check: what the place is for.
        path: the database file.
        contents: what it holds, in words.
    """
    directory = path.absolute().parent
    while not directory.exists():
        directory = directory.parent
    free = shutil.disk_usage(directory).free / 2**30
    found = f"{path} ({contents}), {free:,.1f} GiB free"
    if os.access(directory, os.W_OK):
        return Finding(check, "ok", found)
    return Finding(check, "limited", found, f"{directory} cannot be written; choose another place")


def _version(command: list[str]) -> str:
    """Return the version that a tool prints about itself, the last line that has one."""
    found = [match[1] for line in _lines(command) if (match := _VERSION.search(line))]
    return found[-1].rstrip(".") if found else "version unknown"


def _lines(command: list[str]) -> list[str]:
    if not command:
        return []
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.splitlines() if done.returncode == 0 else []
