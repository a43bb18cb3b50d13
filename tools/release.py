"""Make a release: everything up to the upload.

Usage: python tools/release.py VERSION

Writes the version into pipeline/tbd_trace/version.py and CITATION.cff, and dates its section of
CHANGELOG.md, in a commit outside the branch. Builds wheel and sdist of this commit twice and
compares the bytes, installs the wheel into an empty environment, and asks a question about the
sample. If all this succeeds, the branch gets the commit, the commit a tag, and dist/ the files. If
a step fails, or the program is killed, the branch and its files are unchanged.

The files of a released version are built again: from its tag, else from the commit that dated its
section, or from the current one as long as the next version has no changes.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import changelog
from check_package import CONSTRAINTS, PackageError, check_answer, check_built, install, run
from check_package import version as version_of

ROOT = Path(__file__).resolve().parent.parent
CHANGES, CITATION = "CHANGELOG.md", "CITATION.cff"
VERSION_FILE = "pipeline/tbd_trace/version.py"
_VERSION = r'(?<=^__version__ = ")[^"]*(?="$)'


class ReleaseError(PackageError):
    """The release cannot be made."""

    exit_code = 1


class VersionError(ReleaseError):
    """The requested version cannot be released."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Plan:
    """The commit to release."""

    commit: str
    changed: list[str]  # its files that differ from those of the branch; none: it exists already


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Make the release; exit with 2 if the version is wrong, with 1 if a check fails."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("version", nargs="?", default="", metavar="VERSION")
    version = parser.parse_args(arguments).version
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    try:
        release(version, today, root)
    except PackageError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code if isinstance(error, ReleaseError) else 1
    return 0


def release(version: str, date: str, root: Path) -> None:
    """Make the release of a version on a date.

    Raises:
        VersionError: the version is invalid, or older than the present one.
        ReleaseError: the repository is not ready for it.
        PackageError: a check of the files failed.
    """
    check_version(version, root)
    check_committed(root)
    plan = planned(version, date, root)
    what = f"changes {', '.join(plan.changed)}" if plan.changed else "exists"
    print(f"{version}: commit {plan.commit[:12]} {what}", flush=True)
    with tempfile.TemporaryDirectory() as name:
        files = check_files(plan.commit, version, root, Path(name))
        if plan.changed:
            adopt(plan.commit, version, root)
            print(f"committed, and tagged v{version}")
        (root / "dist").mkdir(exist_ok=True)
        files = [Path(shutil.copy(file, root / "dist")) for file in files]
    print("\n".join(report(files, plan.commit, version, root)))


def check_version(version: str, root: Path) -> None:
    """Check that a version can follow the present one, or is the same.

    Raises:
        VersionError: it is invalid or older.
    """
    if not version:
        raise VersionError("VERSION: missing; use `make release VERSION=0.3.0`")
    try:
        wanted = changelog.numbers(version)
    except ValueError:
        raise VersionError(
            f"VERSION={version}: not a version; use three numbers, such as 0.3.0"
        ) from None
    present = present_version(root)
    if wanted < changelog.numbers(present):
        raise VersionError(f"VERSION={version}: older than {present}; use a newer version")


def present_version(root: Path) -> str:
    """Return the version that the sources state.

    Raises:
        ReleaseError: they state none.
    """
    match = re.search(_VERSION, (root / VERSION_FILE).read_text(encoding="utf-8"), re.MULTILINE)
    if match is None:
        raise ReleaseError(f"{VERSION_FILE}: no version; state one")
    return match[0]


def check_committed(root: Path) -> None:
    """Check that all files are committed or ignored.

    Raises:
        ReleaseError: one is not.
    """
    files = git(root, "status", "--porcelain").splitlines()
    if files:
        more = f" and {len(files) - 1} more" if files[1:] else ""
        raise ReleaseError(f"{files[0][2:].strip()}{more}: not committed; commit or remove it")


def planned(version: str, date: str, root: Path) -> Plan:
    """Return the commit of a version: an existing one, or a new one outside the branch.

    Raises:
        VersionError: the changelog has no changes of the version, or it has a tag already.
    """
    names = (VERSION_FILE, CITATION, CHANGES)
    before = {name: (root / name).read_text(encoding="utf-8") for name in names}
    after = updated(before, version, date)
    changed = [name for name in names if after[name] != before[name]]
    if not changed:
        return Plan(released(version, before[CHANGES], root), [])
    if git(root, "tag", "--list", f"v{version}"):
        raise VersionError(f"VERSION={version}: has the tag v{version}; use a newer version")
    texts = {name: after[name] for name in changed}
    return Plan(committed(texts, f"Release {version}", root), changed)


def updated(texts: Mapping[str, str], version: str, date: str) -> dict[str, str]:
    """Return the texts of the files that state the version, with a new version and date."""
    try:
        changes = changelog.dated(texts[CHANGES], version, date)
    except ValueError as error:
        raise VersionError(f"{CHANGES}: {error}") from None
    (section,) = (section for section in changelog.parse(changes)[1] if section.version == version)
    citation = replaced(CITATION, texts[CITATION], r"(?<=^version: ).*$", version)
    citation = replaced(CITATION, citation, r"(?<=^date-released: ).*$", section.date)
    source = replaced(VERSION_FILE, texts[VERSION_FILE], _VERSION, version)
    return {VERSION_FILE: source, CITATION: citation, CHANGES: changes}


def replaced(name: str, text: str, pattern: str, new: str) -> str:
    """Replace the only place of a pattern in the text of a file.

    Raises:
        ReleaseError: there are none or several.
    """
    changed, places = re.subn(pattern, lambda _: new, text, flags=re.MULTILINE)
    if places != 1:
        raise ReleaseError(f"{name}: {places} places for {new}; keep one")
    return changed


def released(version: str, changes: str, root: Path) -> str:
    """Return the commit of a version that the files state already."""
    if git(root, "tag", "--list", f"v{version}"):
        return git(root, "rev-list", "-1", f"v{version}")
    sections = changelog.parse(changes)[1]
    if not any(section.changes for section in sections if not section.is_released):
        return git(root, "rev-parse", "HEAD")
    (date,) = (section.date for section in sections if section.version == version)
    heading = f"## {version} ({date})"
    return git(root, "log", "--format=%H", f"-S{heading}", "--", CHANGES).splitlines()[-1]


def committed(texts: Mapping[str, str], message: str, root: Path) -> str:
    """Return a new commit on top of HEAD with other texts of files; no branch changes."""
    with tempfile.TemporaryDirectory() as folder:
        index = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
        git(root, "read-tree", "HEAD", **index)
        for name, text in texts.items():
            blob = git(root, "hash-object", "-w", "--stdin", text=text)
            git(root, "update-index", "--cacheinfo", f"100644,{blob},{name}", **index)
        tree = git(root, "write-tree", **index)
    return git(root, "commit-tree", tree, "-p", "HEAD", "-m", message)


def check_files(commit: str, version: str, root: Path, folder: Path) -> list[Path]:
    """Build and check wheel and sdist of a commit in an empty folder, and return them.

    Raises:
        PackageError: a check failed.
    """
    builder = folder / "builder" / "bin" / "python"
    run(sys.executable, "-m", "venv", folder / "builder")
    run(builder, "-m", "pip", "install", "--quiet", "--constraint", CONSTRAINTS, "build")
    made, source = check_built(folder / "built", commit, root, builder)
    (wheel,) = made.glob("*.whl")
    own = install(wheel, sys.executable, folder / "installed")
    if version_of(own) != f"tbd-trace {version}":
        raise ReleaseError(f"{wheel.name}: is {version_of(own)}; state {version} in {VERSION_FILE}")
    answer = check_answer(own, source, folder / "cache")
    print(f"{version_of(own)}, installed, answers `tbd-trace why` about the sample:\n\n{answer}")
    return sorted(made.iterdir())


def adopt(commit: str, version: str, root: Path) -> None:
    """Tag the commit, and move the branch and the files to it."""
    git(root, "tag", "--annotate", f"v{version}", "--message", f"tbd-trace {version}", commit)
    try:
        git(root, "merge", "--ff-only", "--quiet", commit)
    except ReleaseError:
        git(root, "tag", "--delete", f"v{version}")
        raise


def report(files: Sequence[Path], commit: str, version: str, root: Path) -> list[str]:
    """Return lines with the checksums of the files, and the commands that upload them."""
    names = [str(file.relative_to(root)) for file in files]
    lines = ["sha256:"]
    lines += [f"  {hashlib.sha256(f.read_bytes()).hexdigest()}  {f.name}" for f in files]
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    if "urls" not in project:
        lines.append("note: pyproject.toml has no [project.urls]; the package index shows no links")
    lines.append("To upload:")
    if not git(root, "tag", "--list", f"v{version}"):
        lines.append(
            f"  git tag --annotate v{version} --message 'tbd-trace {version}' {commit[:12]}"
        )
    return [*lines, "  git push --follow-tags", f"  python -m twine upload {' '.join(names)}"]


def git(root: Path, *words: str, text: str | None = None, **environment: str) -> str:
    """Run git in a repository, and return its output.

    Args:
        root: the repository.
        words: command and arguments.
        text: standard input.
        environment: more variables.

    Raises:
        ReleaseError: it failed.
    """
    done = subprocess.run(
        ["git", "-C", str(root), *words],
        input=text,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        why = " ".join(done.stderr.split())
        raise ReleaseError(f"git {words[0]}: {why}")
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
