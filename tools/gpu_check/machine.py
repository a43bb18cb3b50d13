"""Set up the machine: an environment from the kit, and the profilers that it has."""

from __future__ import annotations

import os
import shutil
import site
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpu_check import kit

_INSTALL_TIMEOUT_S = 180
_RECORDER = "target-linux-x64/nsys"
# Sizes of workloads, as fields of command lines: a CPU rehearses with small ones.
_SIZES = {
    "cuda": {
        "scale": "full", "iterations": "6", "bert_batch": "16", "llm_batch": "4",
        "train_batch": "512", "train_width": "2048", "train_depth": "12",
        "loader_ms": "5", "input_mib": "64", "capability": "",
        "sweep": "--batch-sizes 64,128,256,512,1024,2048,4096", "estimated": "64,128",
    },
    "cpu": {
        "scale": "small", "iterations": "3", "bert_batch": "1", "llm_batch": "1",
        "train_batch": "8", "train_width": "16", "train_depth": "2",
        "loader_ms": "100", "input_mib": "1", "capability": " --compute-capability 8.0",
        "sweep": "--batch-sizes 1,1000000 --memory-gib 8", "estimated": "1,2",
    },
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Machine:
    """Programs and device of the machine."""

    python: Path  # interpreter with tbd-trace and PyTorch
    device: str  # cuda or cpu
    nsys: tuple[Path, ...]  # every nsys, the machine's own first

    @property
    def fields(self) -> dict[str, str]:
        """Return the fields of command lines (``{tbd}``, ``{python}``, …)."""
        return {
            "python": str(self.python),
            "tbd": f"{self.python} -m tbd_trace",
            "program": f"{self.python} {Path(__file__).resolve().parent}/programs",
            "device": self.device,
            **_SIZES[self.device],
        }


def set_up(directory: Path, kit_folder: Path | None, device: str) -> Machine:
    """Install the kit beside the packages of this interpreter, once, and find the profilers.

    Without a kit, this interpreter is used. Raises KitError if the kit cannot be installed.
    """
    python = Path(sys.executable)
    if kit_folder is not None:
        python = _installed(kit_folder, directory)
    return Machine(python, device, tuple(dict.fromkeys(_every_nsys(directory))))


def _installed(kit_folder: Path, directory: Path) -> Path:
    environment = directory / "environment"
    python = environment / "bin" / "python"
    done = environment / "complete"
    if done.exists():
        return python
    shutil.rmtree(environment, ignore_errors=True)
    if not (kit_folder / kit.WHEELS).is_file():
        raise kit.KitError(f"{kit_folder}: holds no {kit.WHEELS}; run make gpu-kit and copy it")
    wheels = directory / "wheels"
    kit.unpack(kit_folder / kit.WHEELS, wheels)
    if (kit_folder / kit.NSIGHT).is_file():
        kit.unpack(kit_folder / kit.NSIGHT, directory / "nsight")
    # pip of this interpreter fills the environment, because Debian's Python may lack ensurepip.
    _run([sys.executable, "-m", "venv", "--without-pip", str(environment)])
    _share_packages(environment)
    names = sorted(str(path) for path in wheels.glob("*.whl"))
    # pip takes what this interpreter has, and replaces what is too old.
    _run(
        [
            *(sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"),
            *("--disable-pip-version-check", "--no-index", "--no-compile", *names),
        ]
    )
    shutil.rmtree(wheels)
    done.touch()
    return python


def _share_packages(environment: Path) -> None:
    # --system-site-packages of an environment inside another one skips that other one.
    known = [*site.getsitepackages(), site.getusersitepackages()]
    shared = [path for path in known if Path(path).is_dir()]
    packages = next((environment / "lib").glob("python*/site-packages"))
    # After the environment's own, so that these win. addsitedir reads their .pth files, too.
    lines = "".join(f"import site; site.addsitedir({path!r})\n" for path in shared)
    (packages / "shared.pth").write_text(lines, encoding="utf-8")


def _run(argv: list[str]) -> None:
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=_INSTALL_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise kit.KitError(f"{argv[1:3]} took longer than {_INSTALL_TIMEOUT_S} s") from error
    if done.returncode:
        words = "; ".join(line for line in done.stderr.splitlines() if "ERROR" in line)
        raise kit.KitError(f"the kit cannot be installed: {words or done.stderr.strip()[-300:]}")


def _every_nsys(directory: Path) -> Iterator[Path]:
    if program := shutil.which("nsys"):
        yield Path(program)
    # Nsight Compute has an nsys inside, which knows the driver but imports no recordings.
    if program := shutil.which("ncu"):
        home = Path(program).resolve().parent
        yield from sorted(home.glob(f"host/{_RECORDER}"))
        yield from sorted(home.parent.glob(f"*/host/{_RECORDER}"))
    if (ours := directory / "nsight" / _RECORDER).is_file():
        yield ours


def environment(directory: Path) -> dict[str, str]:
    """Return variables for all commands: caches in ``directory``, plain output, our wheel."""
    inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    others = [path for path in inherited if kit.ROOT not in Path(path).resolve().parents]
    return {
        # Without the sources that this program itself is run from.
        "PYTHONPATH": os.pathsep.join(others),
        "TBD_TRACE_CACHE": str(directory / "cache"),
        "PYTHONUNBUFFERED": "1",
        "NO_COLOR": "1",
        "COLUMNS": "200",
        "TORCHINDUCTOR_CACHE_DIR": str(directory / "cache" / "inductor"),
        "TRITON_CACHE_DIR": str(directory / "cache" / "triton"),
        "PATH": os.environ.get("PATH", os.defpath),
    }
