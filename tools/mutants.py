"""Change single operators of the source, and report which changes the fast tests detect.

``python tools/mutants.py --count 60`` makes 60 random mutants, spread over the areas of
``tools/mutants.toml``, each in a copy of the tree. mutmut and cosmic-ray mutate Python only and run
one command for all mutants; most of the logic here is SQL.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from mutations import Mutation, mutations

ROOT = Path(__file__).resolve().parent.parent
QUERIES = ROOT / "queries"
CONFIGURATION = ROOT / "tools" / "mutants.toml"
VERDICTS = ("caught", "survived", "timeout")
_NO_FAILURE, _NO_TESTS = 0, 5  # exit codes of pytest
_BASELINE_LIMIT_S = 900.0


@dataclass(frozen=True, slots=True)
class Area:
    """Files to mutate, and the tests that must detect it."""

    name: str
    files: Sequence[str]  # glob patterns
    tests: Sequence[str]  # glob patterns, in the order to run

    def paths(self) -> list[Path]:
        """Return the files to mutate."""
        return _matching(self.files)

    def command(self, path: Path | None = None) -> list[str]:
        """Return pytest's arguments for a mutated file, or for all files of the area.

        Run the tests that contain the name of the file or, for SQL, of a query with it; all tests
        of the area if none does.
        """
        tests = _matching(self.tests)
        options: list[str] = []
        if path is not None:
            names = users(path)
            golden = [test for test in tests if test.parent.name == "golden"]
            near = [test for test in tests if _mentions(test, {path.stem})]
            far = [test for test in tests if _mentions(test, names)]
            tests = list(dict.fromkeys([*golden, *(near or far or tests)]))
            options = ["-k", " or ".join(["not test_golden", *sorted(names)])]
        return [*(str(test.relative_to(ROOT)) for test in tests), *options]


@cache
def users(path: Path) -> frozenset[str]:
    """Return the name of a file and, for a SQL file, of all queries that use it."""
    found, new = {path.stem}, {path.stem}
    while new and path.is_relative_to(QUERIES):
        new = {file.stem for file in QUERIES.rglob("*.sql") if _mentions(file, new)} - found
        found |= new
    return frozenset(found)


def _matching(patterns: Iterable[str]) -> list[Path]:
    # In the order of the patterns.
    return list(dict.fromkeys(path for each in patterns for path in sorted(ROOT.glob(each))))


def _mentions(file: Path, names: Iterable[str]) -> bool:
    return not _words(file).isdisjoint(names)


@cache
def _words(file: Path) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", file.read_text(encoding="utf-8")))


@dataclass(frozen=True, slots=True)
class Mutant:
    """A mutation of a file of the tree."""

    area: Area
    path: Path
    mutation: Mutation
    line: int

    def __str__(self) -> str:
        before = self.path.read_text(encoding="utf-8")
        after = self.mutation.apply(before).splitlines()[self.line - 1]
        return (
            f"{self.path.relative_to(ROOT)}:{self.line}: {self.mutation.rule}\n"
            f"    - {before.splitlines()[self.line - 1].strip()}\n    + {after.strip()}"
        )


class Tree:
    """A copy of the project in which mutants are tested."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "tree"
        hidden = shutil.ignore_patterns(".*", "__pycache__", "demo-output")
        shutil.copytree(ROOT, self.directory, ignore=hidden)
        packages = (self.directory / name for name in ("pipeline", "collectors", "models"))
        corpus = os.environ.get("TBD_TRACE_CORPUS", ROOT.parent / "shared" / "traces")
        self._environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(map(str, packages)),
            "TBD_TRACE_CORPUS": str(corpus),
            "TMPDIR": str(directory),
        }

    def test(self, mutant: Mutant, limit_s: float) -> str:
        """Return one of VERDICTS for a mutant."""
        target = self.directory / mutant.path.relative_to(ROOT)
        target.write_text(
            mutant.mutation.apply(mutant.path.read_text(encoding="utf-8")), encoding="utf-8"
        )
        try:
            code, output = self.run(mutant.area.command(mutant.path), limit_s)
        finally:
            shutil.copy2(mutant.path, target)
        if code == _NO_TESTS:
            raise SystemExit(f"error: {mutant.path}: no test is about it\n{output}")
        return "timeout" if code is None else "survived" if code == _NO_FAILURE else "caught"

    def run(self, arguments: Sequence[str], limit_s: float) -> tuple[int | None, str]:
        """Run tests; return pytest's exit code, None at the time limit, and its output."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-m", "not slow",
                   "-p", "no:cacheprovider", "--hypothesis-seed=0", *arguments]  # fmt: skip
        process = subprocess.Popen(
            command, cwd=self.directory, env=self._environment, start_new_session=True, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            output, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return None, ""
        return process.returncode, output


def pick(areas: Sequence[Area], count: int, seed: int, known: Sequence[Any]) -> list[Mutant]:
    """Choose mutants at random, as many from each area, without those known as equivalent."""
    dice = random.Random(seed)
    chosen = []
    for number, area in enumerate(areas):
        found = [
            mutant
            for path in area.paths()
            for mutant in _mutants(area, path)
            if not any(_is_equivalent(mutant, entry) for entry in known)
        ]
        share = count // len(areas) + (number < count % len(areas))
        chosen += dice.sample(found, min(share, len(found)))
    dice.shuffle(chosen)
    return chosen


def _mutants(area: Area, path: Path) -> Iterable[Mutant]:
    text = path.read_text(encoding="utf-8")
    for made in mutations(path.name, text):
        yield Mutant(area, path, made, text.count("\n", 0, made.start) + 1)


def _is_equivalent(mutant: Mutant, entry: dict[str, str]) -> bool:
    line = mutant.path.read_text(encoding="utf-8").splitlines()[mutant.line - 1]
    return (
        str(mutant.path.relative_to(ROOT)) == entry["file"]
        and line.strip() == entry["line"]
        and mutant.mutation.rule == entry["rule"]
    )


def judge(
    mutants: Sequence[Mutant], workers: int, limit_s: float | None
) -> list[tuple[Mutant, str]]:
    """Test the mutants, and print each verdict.

    Args:
        mutants: the mutants.
        workers: mutants tested at a time.
        limit_s: seconds per mutant; None to run each area without mutation first, which must pass,
            and allow three times as long.
    """
    here = threading.local()
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:

        def tree() -> Tree:
            if not hasattr(here, "tree"):
                here.tree = Tree(Path(tempfile.mkdtemp(dir=scratch)))
            found: Tree = here.tree
            return found

        def baseline(area: Area) -> tuple[str, float]:
            started = time.monotonic()
            code, output = tree().run(area.command(), _BASELINE_LIMIT_S)
            if code != _NO_FAILURE:
                raise SystemExit(f"error: the tests of {area.name} fail already\n{output}")
            seconds = time.monotonic() - started
            print(f"{area.name}: passes in {seconds:.0f} s without mutation", flush=True)
            return area.name, 30 + 3 * seconds

        def verdict(mutant: Mutant) -> tuple[Mutant, str]:
            found = tree().test(mutant, limits[mutant.area.name])
            print(f"{found}: {mutant}", flush=True)
            return mutant, found

        with ThreadPoolExecutor(workers) as pool:
            areas = {mutant.area.name: mutant.area for mutant in mutants}
            if limit_s is None:
                limits = dict(pool.map(baseline, areas.values()))
            else:
                limits = dict.fromkeys(areas, limit_s)
            return list(pool.map(verdict, mutants))


def summary(judged: Iterable[tuple[Mutant, str]]) -> str:
    """Return a table of the verdicts by area."""
    counts = Counter((mutant.area.name, verdict) for mutant, verdict in judged)
    lines = [f"{'area':12}" + "".join(f"{verdict:>10}" for verdict in VERDICTS)]
    for name in dict.fromkeys(name for name, _ in counts):
        lines.append(f"{name:12}" + "".join(f"{counts[name, verdict]:10}" for verdict in VERDICTS))
    totals = (sum(n for (_, v), n in counts.items() if v == verdict) for verdict in VERDICTS)
    return "\n".join([*lines, f"{'all':12}" + "".join(f"{total:10}" for total in totals)])


def main() -> None:
    """Run the program."""
    configuration = tomllib.loads(CONFIGURATION.read_text(encoding="utf-8"))
    areas = [Area(**area) for area in configuration["area"]]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=22, help="number of mutants")
    parser.add_argument("--seed", type=int, default=1, help="the same seed makes the same mutants")
    parser.add_argument("--workers", type=int, default=2, help="mutants tested at a time")
    parser.add_argument("--area", nargs="*", choices=[area.name for area in areas])
    parser.add_argument("--files", default="*", help="glob pattern of the files to mutate")
    parser.add_argument("--limit", type=float, help="seconds per mutant; default by measurement")
    parser.add_argument("--list", action="store_true", help="show the mutants; test none")
    options = parser.parse_args()
    chosen = [area for area in areas if not options.area or area.name in options.area]
    mutants = [
        mutant
        for mutant in pick(chosen, options.count, options.seed, configuration.get("equivalent", []))
        if fnmatch.fnmatch(str(mutant.path.relative_to(ROOT)), options.files)
    ]
    if options.list:
        print("\n".join(map(str, mutants)))
        return
    print(summary(judge(mutants, options.workers, options.limit)))


if __name__ == "__main__":
    main()
