"""Check the wheel and the sdist: reproducible, complete, and answering after an installation.

Usage: python tools/check_package.py [--python PYTHON ...]

Builds the committed files twice and compares the bytes, compares the contents of the wheel with the
checkout, installs it for each PYTHON (default: the running one) into an empty environment, and asks
a question about the sample there. Prints the sizes and times as Markdown.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SAMPLE = ROOT / "data" / "samples" / "synthetic_cnn"
# Directories of the checkout by their place in the wheel.
PARTS = {
    "tbd_trace": "pipeline/tbd_trace",
    "tbd_collectors": "collectors/tbd_collectors",
    "tbd_models": "models/tbd_models",
    "tbd_trace/queries": "queries",
    "tbd_trace/data": "data",
}
_LARGEST = 8  # packages that are listed
_SIZES = """
import importlib.metadata as metadata
for one in metadata.distributions():
    files = {file.locate() for file in one.files or ()}
    print(sum(file.stat().st_size for file in files if file.is_file()), one.name)
"""


class PackageError(Exception):
    """The package has a fault."""


def main() -> int:
    """Check the package; exit with 1 if it has a fault."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", nargs="+", default=[sys.executable], metavar="PYTHON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            wheel = check_built(folder)
            for number, python in enumerate(options.python):
                print(check_installed(wheel, python, folder / f"installed{number}"))
        except PackageError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
    return 0


def check_built(folder: Path) -> Path:
    """Build twice, compare, and return the wheel.

    Raises:
        PackageError: the files differ, or the wheel has other files than the checkout.
    """
    first, second = (built(folder / name) for name in ("first", "second"))
    for file in first:
        if file.read_bytes() != (second[0].parent / file.name).read_bytes():
            raise PackageError(f"{file.name}: two builds differ")
    (wheel,) = (file for file in first if file.suffix == ".whl")
    found, wanted = contents(wheel), expected(folder / "first" / "source")
    if found != wanted:
        raise PackageError(
            f"{wheel.name}: missing {sorted(wanted - found)}, too much {sorted(found - wanted)}"
        )
    sizes = ", ".join(f"{file.name} {file.stat().st_size / 1e6:.1f} MB" for file in first)
    print(f"reproducible: {sizes}, {len(found)} files of the checkout\n")
    return wheel


def built(folder: Path) -> list[Path]:
    """Return sdist and wheel of the committed files; the wheel is built from the sdist."""
    source, made = folder / "source", folder / "made"
    source.mkdir(parents=True)
    packed = folder / "source.tar"
    run("git", "-C", ROOT, "archive", "-o", packed, "HEAD")
    shutil.unpack_archive(packed, source)
    run(sys.executable, "-m", "build", "--outdir", made, source)
    return sorted(made.iterdir())


def contents(wheel: Path) -> set[str]:
    """Return the files of a wheel without its metadata."""
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def expected(source: Path) -> set[str]:
    """Return the files that a wheel of a source tree has."""
    return {
        str(Path(place) / file.relative_to(source / part))
        for place, part in PARTS.items()
        for file in (source / part).rglob("*")
        if file.is_file()
    }


def check_installed(wheel: Path, python: str, folder: Path) -> str:
    """Install the wheel, ask a question about the sample, and return a table of sizes and times.

    Raises:
        PackageError: the answer differs from that of the checkout.
    """
    found = shutil.which(python)
    if found is None:
        raise PackageError(f"{python}: not found; name an installed Python")
    run(Path(found).absolute(), "-m", "venv", folder)
    own = folder / "bin" / "python"
    begin = time.perf_counter()
    run(own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel)
    rows = [("pip install", f"{time.perf_counter() - begin:.0f} s")]
    sample = Path(shutil.copytree(SAMPLE, folder / "run"))
    answers = []
    for name in ("first answer", "the same again"):
        begin = time.perf_counter()
        answers.append(run(folder / "bin" / "tbd-trace", "why", sample, cache=folder / "cache"))
        rows.append((name, f"{time.perf_counter() - begin:.1f} s"))
    if set(answers) != {run(sys.executable, "-m", "tbd_trace", "why", sample)}:
        raise PackageError(f"{python}: the installed package gives another answer to `why`")
    lines = (line.split(" ", 1) for line in run(own, "-c", _SIZES).splitlines())
    sizes = sorted(((int(size), name) for size, name in lines), reverse=True)
    rows.append(("installed", f"{sum(size for size, _ in sizes) / 1e6:.0f} MB"))
    rows += [(name, f"{size / 1e6:.0f} MB") for size, name in sizes[:_LARGEST]]
    version = run(own, "--version").strip()
    return "\n".join([f"| {version} | |", "|---|---:|", *(f"| {a} | {b} |" for a, b in rows), ""])


def run(*words: str | Path, cache: Path | None = None) -> str:
    """Run a program away from the checkout, and return its output.

    Args:
        words: program and arguments.
        cache: cache of tbd-trace, by default an empty one.

    Raises:
        PackageError: it failed.
    """
    with tempfile.TemporaryDirectory() as elsewhere:
        own = str(cache or Path(elsewhere) / "cache")
        environment = os.environ | {"TBD_TRACE_CACHE": own, "TERM": "dumb", "COLUMNS": "100"}
        done = subprocess.run(
            [*map(str, words)],
            cwd=elsewhere,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise PackageError(f"{' '.join(map(str, words))}: {done.stderr.strip()[-2000:]}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
