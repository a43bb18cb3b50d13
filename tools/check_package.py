"""Check the wheel and the sdist: reproducible, complete, and answering after an installation.

Usage: python tools/check_package.py [--python PYTHON ...]

Builds the committed files twice and compares the bytes, compares the contents of the wheel with the
commit, installs it for each PYTHON (default: the running one) into an empty environment, and asks
a question about the sample there. Prints the sizes and times as Markdown.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SAMPLE = Path("data", "samples", "synthetic_cnn")
# Directories of the commit by their place in the wheel.
PARTS = {
    "tbd_trace": "pipeline/tbd_trace",
    "tbd_collectors": "collectors/tbd_collectors",
    "tbd_models": "models/tbd_models",
    "tbd_trace/queries": "queries",
    "tbd_trace/data": "data",
}
CONSTRAINTS = Path(__file__).with_name("build_constraints.txt")
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
            made, source = check_built(folder)
            (wheel,) = made.glob("*.whl")
            for number, python in enumerate(options.python):
                print(check_installed(wheel, python, folder / f"installed{number}", source))
        except PackageError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
    return 0


def check_built(
    folder: Path, commit: str = "HEAD", root: Path = ROOT, python: str | Path = sys.executable
) -> tuple[Path, Path]:
    """Build a commit twice, compare, and return the directories of the results and the sources.

    Args:
        folder: an empty directory.
        commit: commit of the repository ``root``.
        root: the repository.
        python: Python with the package ``build``.

    Raises:
        PackageError: the builds differ, or have other files than the commit.
    """
    first, second = (built(folder / name, commit, root, python) for name in ("first", "second"))
    source = folder / "first" / "source"
    for file in first:
        if file.read_bytes() != (second[0].parent / file.name).read_bytes():
            raise PackageError(f"{file.name}: two builds differ")
        check_contents(file, source)
    sizes = ", ".join(f"{file.name} {file.stat().st_size / 1e6:.1f} MB" for file in first)
    print(f"reproducible: {sizes}, {len(expected(source))} files of the commit in the wheel\n")
    return first[0].parent, source


def built(folder: Path, commit: str, root: Path, python: str | Path) -> list[Path]:
    """Return wheel and sdist of the files of a commit; the wheel is built from the sdist."""
    source, made = folder / "source", folder / "made"
    source.mkdir(parents=True)
    packed = folder / "source.tar"
    run("git", "-C", root, "archive", "-o", packed, commit)
    shutil.unpack_archive(packed, source, filter="data")
    seconds = run("git", "-C", root, "log", "-1", "--format=%ct", commit).strip()
    constraints = CONSTRAINTS.as_uri()
    environment = {"SOURCE_DATE_EPOCH": seconds, "PIP_CONSTRAINT": constraints}
    run(python, "-m", "build", "--outdir", made, source, **environment)
    return sorted(made.iterdir())


def check_contents(file: Path, source: Path) -> None:
    """Check that a wheel has all files that it needs, and that neither has others.

    Raises:
        PackageError: it lacks some, or has others.
    """
    if file.suffix == ".whl":
        with zipfile.ZipFile(file) as archive:
            packed_files = {name for name in archive.namelist() if ".dist-info/" not in name}
        wanted = expected(source)
        missing, surplus = wanted - packed_files, packed_files - wanted
    else:
        with tarfile.open(file) as packed:
            packed_files = {member.name.partition("/")[2] for member in packed if member.isfile()}
        committed = {str(path.relative_to(source)) for path in source.rglob("*") if path.is_file()}
        missing, surplus = set(), packed_files - committed - {"PKG-INFO"}
    if missing or surplus:
        raise PackageError(f"{file.name}: missing {sorted(missing)}, too much {sorted(surplus)}")


def expected(source: Path) -> set[str]:
    """Return the files that a wheel of a source tree has."""
    return {
        str(Path(place) / file.relative_to(source / part))
        for place, part in PARTS.items()
        for file in (source / part).rglob("*")
        if file.is_file()
    }


def check_installed(wheel: Path, python: str, folder: Path, source: Path) -> str:
    """Install the wheel, ask a question about the sample, and return a table of sizes and times.

    Raises:
        PackageError: the answer differs from that of the sources.
    """
    begin = time.perf_counter()
    own = install(wheel, python, folder)
    rows = [("pip install", f"{time.perf_counter() - begin:.0f} s")]
    for name in ("first answer", "the same again"):
        begin = time.perf_counter()
        answer(own, source, folder / "cache")
        rows.append((name, f"{time.perf_counter() - begin:.1f} s"))
    check_answer(own, source, folder / "cache")
    lines = (line.split(" ", 1) for line in run(own, "-c", _SIZES).splitlines())
    sizes = sorted(((int(size), name) for size, name in lines), reverse=True)
    rows.append(("installed", f"{sum(size for size, _ in sizes) / 1e6:.0f} MB"))
    rows += [(name, f"{size / 1e6:.0f} MB") for size, name in sizes[:_LARGEST]]
    shown = [f"| {version(own)} | |", "|---|---:|", *(f"| {a} | {b} |" for a, b in rows)]
    return "\n".join([*shown, ""])


def install(wheel: Path, python: str, folder: Path) -> Path:
    """Install a wheel into an empty environment, and return the Python of the environment.

    Raises:
        PackageError: the interpreter does not exist, or the installation failed.
    """
    interpreter = shutil.which(python)
    if interpreter is None:
        raise PackageError(f"{python}: not found; name an installed Python")
    run(Path(interpreter).absolute(), "-m", "venv", folder)
    own = folder / "bin" / "python"
    run(own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel)
    return own


def version(own: Path) -> str:
    """Return the output of `tbd-trace --version` of an environment."""
    return run(own.with_name("tbd-trace"), "--version").strip()


def answer(own: Path, source: Path, cache: Path) -> str:
    """Return the answer of the installed package to `why` about the sample."""
    return run(own.with_name("tbd-trace"), "why", source / SAMPLE, TBD_TRACE_CACHE=str(cache))


def check_answer(own: Path, source: Path, cache: Path) -> str:
    """Compare answers of the installed package and the sources to `why`, and return them.

    Raises:
        PackageError: they differ.
    """
    installed = answer(own, source, cache)
    path = os.pathsep.join(str((source / part).parent) for part in list(PARTS.values())[:3])
    wanted = run(own, "-m", "tbd_trace", "why", source / SAMPLE, PYTHONPATH=path)
    if installed != wanted:
        raise PackageError(f"{own}: the installed package gives another answer to `why`")
    return installed


def run(*words: str | Path, **environment: str) -> str:
    """Run a program away from the checkout, and return its output.

    Args:
        words: program and arguments.
        environment: variables; others of Python and tbd-trace are unset.

    Raises:
        PackageError: it failed.
    """
    own = ("TBD_TRACE_", "PYTHON")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    with tempfile.TemporaryDirectory() as elsewhere:
        cache = {"TBD_TRACE_CACHE": str(Path(elsewhere) / "cache")}
        done = subprocess.run(
            [*map(str, words)],
            cwd=elsewhere,
            env=kept | {"TERM": "dumb", "COLUMNS": "100"} | cache | environment,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise PackageError(f"{' '.join(map(str, words))}: {done.stderr.strip()[-2000:]}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
