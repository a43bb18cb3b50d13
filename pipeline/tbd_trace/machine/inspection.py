"""Find the profilers, frameworks, GPUs and permissions of this machine, without profiling."""

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

from tbd_trace.errors import UsageError
from tbd_trace.machine import amd_gpu, nsys_install

_LIBRARIES = ("duckdb", "polars", "pyarrow", "matplotlib")
FRAMEWORKS = {
    "pytorch": ("torch",),
    "tensorflow": ("tensorflow", "tensorflow-cpu"),
    "mxnet": ("mxnet", "mxnet-cu112"),
}
"""Names of the pip packages of each framework."""

# With later versions of the package, the tested profilers record no ranges.
NVTX_VERSION = "0.2.11"
_PACKAGES = (
    *(package for packages in FRAMEWORKS.values() for package in packages),
    *("transformers", "numpy", "nvtx"),
)
_TIMEOUT_SECONDS = 20  # nvidia-smi takes seconds if the driver must be loaded first
_PROC = Path("/proc")
_VERSION = re.compile(r"(\d+\.\d+[\d.]*)")


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one check."""

    check: str  # name of the check
    status: str  # ``ok``, ``limited`` (works in part), ``missing`` or ``damaged``
    found: str  # version, path or setting found
    advice: str = ""  # remedy, empty if none is needed


def examine(pythons: Mapping[str, str] | None = None) -> list[Finding]:
    """Check Python, the profilers, the frameworks, the GPUs and the permissions.

    Args:
        pythons: interpreter by framework, by default this one.
    """
    used = dict.fromkeys(FRAMEWORKS, sys.executable) | dict(pythons or {})
    return [
        Finding("python", "ok", platform.python_version()),
        *(Finding(name, "ok", metadata.version(name)) for name in _LIBRARIES),
        nsys(),
        nvprof(),
        ncu(),
        torch_profiler(used["pytorch"]),
        *(framework(name, python) for name, python in used.items()),
        *gpus(),
        counters(),
        cpu_sampling(),
    ]


def nsys() -> Finding:
    """Find Nsight Systems and its importer."""
    # Without its importer, nsys leaves .qdstrm files in place of reports.
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
    installation = f"{_version([program, '--version'])} ({program})"
    if installed.importer is not None:
        return Finding("nsys", "ok", f"{installation}, importer {installed.importer}")
    return Finding(
        "nsys",
        "limited",
        f"{installation}; its importer is not found, so it may leave .qdstrm files",
        "install the whole of Nsight Systems, not its target part alone, or name its directory: "
        f"export {nsys_install.HOME_VARIABLE}=DIRECTORY",
    )


def nvprof() -> Finding:
    """Find nvprof."""
    return _program(
        "nvprof",
        "only for GPUs before compute capability 8.0: install the CUDA toolkit up to 12 "
        "(Debian: nvidia-profiler, component non-free)",
    )


def ncu() -> Finding:
    """Find Nsight Compute."""
    return _program(
        "ncu",
        "install Nsight Compute (Debian: nsight-compute, component non-free) "
        "to collect hardware counters",
    )


def _program(name: str, advice: str) -> Finding:
    path = shutil.which(name)
    if path is None:
        return Finding(name, "missing", "not on PATH", advice)
    return Finding(name, "ok", f"{_version([path, '--version'])} ({path})")


def torch_profiler(python: str = sys.executable) -> Finding:
    """Find torch.profiler, a part of PyTorch."""
    try:
        version = framework_version("pytorch", interpreter(python))
    except UsageError:
        version = None
    if version is None:
        advice = "tbd-trace env create pytorch, to record PyTorch with collect --profiler torch"
        return Finding("torch", "missing", f"no torch.profiler ({python})", advice)
    return Finding("torch", "ok", f"{version} ({python}), collect --profiler torch")


def gpus() -> list[Finding]:
    """Return one finding per GPU, or a single one with the reason why there is none."""
    path = shutil.which("nvidia-smi")
    rows = _lines(
        [path, "--query-gpu=name,driver_version", "--format=csv,noheader"] if path else []
    )
    # Names may contain commas; the driver's version does not.
    named = [row.rsplit(", ", 1) for row in rows if ", " in row]
    if named:
        return [Finding("gpu", "ok", f"{name}, driver {driver}") for name, driver in named]
    if amd := amd_gpu.architectures():
        advice = "PyTorch for ROCm trains on it: collect --device cuda --profiler torch"
        return [Finding("gpu", "limited", f"AMD {name}", advice) for name in amd]
    driver = _PROC / "driver" / "nvidia" / "version"
    if driver.is_file():
        version = _VERSION.search(driver.read_text())
        state = f"driver {version[1] if version else 'of unknown version'}; nvidia-smi lists no GPU"
        return [
            Finding("gpu", "limited", state, "reload the driver, or give the container the GPU")
        ]
    return [
        Finding(
            "gpu",
            "missing",
            "no NVIDIA driver",
            "profiles are read here; tbd-trace collect --device cpu records no kernels",
        )
    ]


def interpreter(python: str = sys.executable) -> dict[str, str]:
    """Return the versions of frameworks, numpy and nvtx installed in an interpreter.

    Raises:
        UsageError: it is not a working Python interpreter.
    """
    # From the package metadata, because importing a framework takes seconds.
    script = (
        "import importlib.metadata as m, json, sys\n"
        "found = {'python': sys.version.split()[0]}\n"
        f"for name in {_PACKAGES}:\n"
        "    try: found[name] = m.version(name)\n"
        "    except Exception: pass\n"
        "print(json.dumps({name: version for name, version in found.items() if version}))"
    )
    # The last line: sitecustomize modules and .pth files may print before it.
    output = _lines([python, "-c", script])
    try:
        versions = json.loads(output[-1]) if output else {}
    except ValueError:
        versions = {}
    if not isinstance(versions, dict) or "python" not in versions:
        raise UsageError(f"{python}: not a working Python interpreter; set another with --python")
    return versions


def framework_version(name: str, versions: Mapping[str, str]) -> str | None:
    """Return the version of a framework, None if it is not among the installed packages.

    Args:
        name: ``pytorch``, ``tensorflow`` or ``mxnet``.
        versions: version by package, from :func:`interpreter`.
    """
    return next((versions[package] for package in FRAMEWORKS[name] if package in versions), None)


def framework(name: str, python: str = sys.executable) -> Finding:
    """Find a framework and a suitable nvtx in an interpreter."""
    try:
        versions = interpreter(python)
    except UsageError:
        advice = f"tbd-trace env create {name} --force"
        return Finding(name, "missing", f"{python} does not run", advice)
    if framework_version(name, versions) is None:
        advice = f"tbd-trace env create {name}, to train its workloads"
        return Finding(name, "missing", f"not installed ({python})", advice)
    shown = [*FRAMEWORKS[name], "numpy", "nvtx"]
    packages = ", ".join(
        f"{package} {versions[package]}" for package in shown if package in versions
    )
    status, advice = _nvtx(versions.get("nvtx"))
    return Finding(name, status, f"{packages} ({python})", advice)


def _nvtx(version: str | None) -> tuple[str, str]:
    # Without nvtx the framework trains, but phases and layers are not recorded.
    advice = f"pip install nvtx=={NVTX_VERSION}, or the workloads' ranges are not recorded"
    if version is None:
        return "limited", f"nvtx is not installed: {advice}"
    if _numbers(version) > _numbers(NVTX_VERSION):
        return "limited", f"nsys does not see this nvtx: {advice}"
    return "ok", ""


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def counters() -> Finding:
    """Check if this user may read hardware counters."""
    # https://developer.nvidia.com/ERR_NVGPUCTRPERM
    parameters = _PROC / "driver" / "nvidia" / "params"
    if not parameters.is_file():
        return Finding("hardware counters", "missing", "no NVIDIA driver")
    match = re.search(r"^RmProfilingAdminOnly:\s*(\d+)", parameters.read_text(), re.MULTILINE)
    if match is None:
        return Finding("hardware counters", "limited", "the driver does not show who may read them")
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
    """Check if nsys may sample the CPU, which requires perf_event_paranoid of at most 2."""
    setting = _PROC / "sys" / "kernel" / "perf_event_paranoid"
    try:
        level = int(setting.read_text())
    except (OSError, ValueError):
        return Finding("cpu sampling", "missing", "the kernel has no perf events")
    state = f"perf_event_paranoid is {level}"
    if level <= 2:
        return Finding("cpu sampling", "ok", state)
    return Finding(
        "cpu sampling", "limited", state, "sysctl kernel.perf_event_paranoid=2, or nsys -s none"
    )


def storage(check: str, path: Path, contents: str) -> Finding:
    """Check free space and permissions of a directory with traces.

    Args:
        contents: description of its contents, such as ``3 traces``.
    """
    # The directory may not exist yet; it is created in the nearest existing one.
    directory = path.absolute().parent
    while not directory.exists():
        directory = directory.parent
    free = shutil.disk_usage(directory).free / 2**30
    state = f"{path} ({contents}), {free:,.1f} GiB free"
    if os.access(directory, os.W_OK):
        return Finding(check, "ok", state)
    return Finding(check, "limited", state, f"{directory} cannot be written; choose another place")


def _version(command: list[str]) -> str:
    # The last match: tools print their name and copyright first.
    versions = [match[1] for line in _lines(command) if (match := _VERSION.search(line))]
    return versions[-1].rstrip(".") if versions else "version unknown"


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
