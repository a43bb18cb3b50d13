"""Make the folder of packages that a GPU machine without a network lacks: the GPU kit.

Usage: PYTHONPATH=tools python -m gpu_check.kit [-o DIR] [--python 3.12] [--nsight DIR]

The GPU machine has PyTorch for CUDA with NumPy, pyarrow, matplotlib, Jinja2, rich and the packages
that these need. Wheels are compressed again: together by xz they take two thirds.
"""

from __future__ import annotations

import argparse
import lzma
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
MIB = 2**20
LIMIT_MIB = 60
WHEELS, NSIGHT, CONTENTS = "wheels.tar.xz", "nsight.tar.xz", "contents.txt"

PACKAGES = (
    "cxxfilt",
    "detect-secrets",
    "duckdb",
    "isal",
    "nvtx==0.2.11",
    # The lowest version that is tested: later wheels are half as large again.
    "polars==1.32.*",
    "sqlalchemy",
    "typer<0.29",
)
# Tags of glibc that wheels of these packages have; pip takes each literally.
_PLATFORMS = ("2_28", "2_27", "2_24", "2_17", "2_12", "2_5")

# What nsys needs to record CUDA and NVTX. Its recordings (.qdstrm) are imported later, by the
# same version: the importer and its libraries would take another 20 MiB.
_NSIGHT_PARTS = (
    "nsys",
    "nsys-launcher",
    "launcher",
    "CudaGpuInfoDumper",
    "libcupti.so.11.8",
    "libLauncher64.so",
    "libToolsInjection64.so",
    "libToolsInjectionMemoryAllocator.so",
    "libToolsInjectionProxy64.so",
    "libnvlog.so",
    "nvtx",
)


class KitError(Exception):
    """The kit cannot be made."""


def main() -> int:
    """Make the kit; exit with 1 if a part is missing or the kit is larger than the limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "gpu-kit")
    parser.add_argument("--python", default="3.12", help="version on the GPU machine")
    parser.add_argument(
        "--nsight",
        type=Path,
        default=Path("/usr/lib/nsight-systems"),
        help="installation of Nsight Systems; a missing one leaves nsys out",
    )
    parser.add_argument(
        "--preset",
        type=int,
        default=6,
        choices=range(10),
        help="compression: 6 takes 5 minutes of a core, 0 a tenth of that and a fifth more space",
    )
    options = parser.parse_args()
    try:
        make(options.output, options.python, options.nsight, options.preset)
    except (KitError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def make(output: Path, python: str, nsight: Path, preset: int = 6) -> None:
    """Make the kit in ``output``, which appears complete; print and write its contents.

    nsys is left out if the kit would exceed the limit. Raises KitError if a package cannot be had,
    or if the wheels alone exceed it.
    """
    with tempfile.TemporaryDirectory(dir=output.resolve().parent, prefix=".gpu-kit-") as name:
        work, beside = Path(name), Path(name) / "kit"
        beside.mkdir()
        _pip("wheel", "--no-deps", "--wheel-dir", str(work / "ours"), str(ROOT))
        _download(work / "theirs", python)
        wheels = [*(work / "ours").glob("*.whl"), *(work / "theirs").glob("*.whl")]
        lines = [
            f"for Python {python} on Linux x86-64",
            *pack_wheels(wheels, beside / WHEELS, preset),
        ]
        if _size(beside) > LIMIT_MIB * MIB:
            raise KitError(f"{output}: more than {LIMIT_MIB} MiB; use --preset 6")
        lines += pack_nsight(nsight, beside / NSIGHT, preset)
        if _size(beside) > LIMIT_MIB * MIB:
            (beside / NSIGHT).unlink()
            lines.append(f"nsys is left out: with it, the kit is larger than {LIMIT_MIB} MiB")
        lines.append(f"{_size(beside) / MIB:8.1f} MiB  in all")
        text = "\n".join(lines)
        print(text)
        (beside / CONTENTS).write_text(text + "\n", encoding="utf-8")
        shutil.rmtree(output, ignore_errors=True)
        beside.rename(output)


def _size(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.iterdir())


def _download(into: Path, python: str) -> None:
    platforms = [f"--platform=manylinux_{tag}_x86_64" for tag in _PLATFORMS]
    legacy = ["--platform=manylinux2014_x86_64"]
    _pip(
        *("download", "--no-deps", "--only-binary=:all:", "--implementation=cp"),
        *(f"--python-version={python}", *platforms, *legacy, "--dest", str(into), *PACKAGES),
    )


def _pip(*arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        words = next(iter(done.stderr.strip().splitlines()[-1:]), "no output")
        raise KitError(f"pip {arguments[0]} failed: {words}")


def pack_wheels(wheels: Iterable[Path], packed: Path, preset: int = 6) -> Iterator[str]:
    """Pack wheels as a .tar.xz file; yield a line with name and size of each, and of all."""
    lines = []
    with _packing(packed, preset) as tar:
        for wheel in sorted(wheels, key=lambda path: path.name):
            with tempfile.TemporaryDirectory() as name:
                stored = Path(name) / wheel.name
                _store(wheel, stored)
                tar.add(stored, wheel.name)
            lines.append(f"{wheel.stat().st_size / MIB:8.1f} MiB  {wheel.name}")
    yield from lines
    yield f"{packed.stat().st_size / MIB:8.1f} MiB  {packed.name}, these wheels packed"


@contextmanager
def _packing(packed: Path, preset: int) -> Iterator[tarfile.TarFile]:
    # Addresses in x86 code compress better as absolute ones.
    filters = [{"id": lzma.FILTER_X86}, {"id": lzma.FILTER_LZMA2, "preset": preset}]
    with (
        lzma.open(packed, "wb", filters=filters) as file,
        tarfile.open(fileobj=file, mode="w") as tar,
    ):
        yield tar


def _store(wheel: Path, stored: Path) -> None:
    # Deflated members would not compress again. RECORD has hashes of the contents, which stay.
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(stored, "w", zipfile.ZIP_STORED) as new:
        for member in old.infolist():
            content = old.read(member)
            member.compress_type = zipfile.ZIP_STORED
            new.writestr(member, content)


def pack_nsight(home: Path, packed: Path, preset: int = 6) -> Iterator[str]:
    """Pack what nsys needs to record, if ``home`` has it; yield a line that says so."""
    targets = sorted(home.glob("target-linux-*"))
    if not targets:
        yield f"no nsys: {home} is no installation of Nsight Systems"
        return
    target = targets[-1].resolve()
    with _packing(packed, preset) as tar:
        for part in (target / name for name in _NSIGHT_PARTS):
            if part.exists():
                tar.add(part, f"target-linux-x64/{part.name}")
    yield f"{packed.stat().st_size / MIB:8.1f} MiB  {packed.name}, nsys for CUDA and NVTX"


def unpack(packed: Path, into: Path) -> None:
    """Unpack a file of the kit.

    Raises KitError if it is damaged.
    """
    try:
        with tarfile.open(packed, "r:xz") as tar:
            tar.extractall(into, filter="data")
    except (tarfile.TarError, lzma.LZMAError, EOFError) as error:
        raise KitError(f"{packed}: damaged ({error}); copy the kit again") from error


if __name__ == "__main__":
    sys.exit(main())
