"""Change single operators of the source, and report which changes the tests detect.

``python tools/mutants.py --count 60`` makes 60 random mutants, spread over the areas of
``tools/mutants.toml``, each in a copy of the tree. mutmut and cosmic-ray mutate Python only and run
one command for all mutants; most of the logic here is SQL. With ``--record``, each mutant of Python
runs the tests of its line (`mutants_plugin.py`).
"""

from __future__ import annotations

import argparse
import bisect
import fnmatch
import os
import random
import re
import shutil
import tempfile
import threading
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from pytest import ExitCode

from mutants_tests import ROOT, Area
from mutants_tree import UNFINISHED, Tree
from mutations import SQL_RULES, Mutation, mutations

CONFIGURATION = ROOT / "tools" / "mutants.toml"
VERDICTS = ("caught", "survived", "unfinished", "timeout")
_VERDICTS: dict[int | None, str] = {
    ExitCode.OK: "survived",
    ExitCode.NO_TESTS_COLLECTED: "survived",  # all tests of the line are nightly
    UNFINISHED: "unfinished",
    None: "timeout",
}
_CHECK_S = 3600.0
# They compute from ingested traces.
_AFTER_INGEST = ("queries/checks", "queries/derive", "queries/diff", "queries/macros",
    "queries/metrics", "pipeline/tbd_trace/analysis", "pipeline/tbd_trace/why")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mutant:
    """A mutation of a file of the tree."""

    area: Area
    path: Path
    mutation: Mutation
    line: int

    @property
    def keeps_traces(self) -> bool:
        """Return True if the mutation cannot change what an ingest writes."""
        path = self.path.relative_to(ROOT).as_posix()
        return path.startswith(_AFTER_INGEST)

    def lines(self) -> tuple[str, str]:
        """Return the line before and after the mutation, without indentation."""
        before = self.path.read_text(encoding="utf-8")
        after = self.mutation.apply(before)
        return (
            before.splitlines()[self.line - 1].strip(),
            after.splitlines()[self.line - 1].strip(),
        )

    def __str__(self) -> str:
        before, after = self.lines()
        place = f"{self.path.relative_to(ROOT)}:{self.line}"
        return f"{place}: {self.mutation.rule}\n    - {before}\n    + {after}"


def pick(
    areas: Sequence[Area], count: int, seed: int, is_wanted: Callable[[Mutant], bool]
) -> list[Mutant]:
    """Choose wanted mutants at random, as many from each area."""
    dice = random.Random(seed)
    chosen = []
    for number, area in enumerate(areas):
        candidates = [
            mutant for path in area.paths() for mutant in _mutants(area, path) if is_wanted(mutant)
        ]
        share = count // len(areas) + (number < count % len(areas))
        chosen += dice.sample(candidates, min(share, len(candidates)))
    dice.shuffle(chosen)
    return chosen


def _mutants(area: Area, path: Path) -> Iterable[Mutant]:
    text = path.read_text(encoding="utf-8")
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    for made in mutations(path.name, text):
        yield Mutant(area, path, made, bisect.bisect(starts, made.start))


def _is_same(mutant: Mutant, entry: dict[str, str]) -> bool:
    if mutant.mutation.rule != entry["rule"] or not mutant.path.match(entry["file"]):
        return False
    before, after = mutant.lines()
    return before == entry["line"] and after == entry.get("changed", after)


class MutantTester:
    """Tests mutants, each thread in a copy of the project.

    Args:
        scratch: directory for the copies.
        budget_s: CPU time after which no further test of a mutant starts, seconds.
    """

    def __init__(self, scratch: Path, budget_s: float) -> None:
        self._scratch = scratch
        self._budget_s = budget_s
        self._here = threading.local()
        self._catching: set[str] = set()  # tests that failed
        self._broken: list[str] = []  # mutants whose tests cannot be collected without them either

    def _tree(self) -> Tree:
        if not hasattr(self._here, "tree"):
            folder = Path(tempfile.mkdtemp(dir=self._scratch))
            self._here.tree = Tree(folder, self._scratch / "samples")
        tree: Tree = self._here.tree
        return tree

    def verdict(self, mutant: Mutant) -> str:
        """Return one of VERDICTS, and print it."""
        tests = mutant.area.tests_of(mutant.path, mutant.line)
        target = self._tree().directory / mutant.path.relative_to(ROOT)
        changed = mutant.mutation.apply(mutant.path.read_text(encoding="utf-8"))
        target.write_text(changed, encoding="utf-8")
        try:
            outcome = self._tree().run(tests, self._budget_s, mutant.keeps_traces)
        finally:
            shutil.copy2(mutant.path, target)
        verdict = _VERDICTS.get(outcome.code, "caught")
        if verdict == "caught" and not outcome.failed and not self._collects(tests):
            self._broken.append(f"{mutant}\n{outcome.output}")
        self._catching.add(outcome.failed)
        by = f"\n    by {outcome.failed}" if outcome.failed else ""
        print(f"{verdict} in {outcome.cpu_s:.0f} s: {mutant}{by}", flush=True)
        return verdict

    def _collects(self, tests: Sequence[str]) -> bool:
        # The source can be mutated so that no test is collected.
        return self._tree().run([*tests, "--collect-only"], self._budget_s).code == ExitCode.OK

    def check(self) -> None:
        """Run the tests that failed without a mutation.

        Raises:
            SystemExit: one fails, or tests cannot be collected.
        """
        if self._broken:
            raise SystemExit(f"error: no tests are collected for {self._broken[0]}")
        if tests := sorted(self._catching - {""}):
            outcome = self._tree().run(tests, _CHECK_S)
            if outcome.code != ExitCode.OK:
                raise SystemExit(f"error: {outcome.failed} fails already\n{outcome.output}")


def run_all(mutants: Sequence[Mutant], workers: int, budget_s: float) -> list[tuple[Mutant, str]]:
    """Test the mutants, and print each verdict.

    Args:
        mutants: the mutants.
        workers: mutants tested at a time.
        budget_s: CPU time per mutant, seconds.
    """
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        tester = MutantTester(Path(scratch), budget_s)
        with ThreadPoolExecutor(workers) as pool:
            verdicts = list(pool.map(tester.verdict, mutants))
            pool.submit(tester.check).result()
    return list(zip(mutants, verdicts, strict=True))


def summary(verdicts: Iterable[tuple[Mutant, str]]) -> str:
    """Return a table of the verdicts by area."""
    counts = Counter((mutant.area.name, verdict) for mutant, verdict in verdicts)
    lines = [f"{'area':12}" + "".join(f"{verdict:>12}" for verdict in VERDICTS)]
    for name in dict.fromkeys(name for name, _ in counts):
        lines.append(f"{name:12}" + "".join(f"{counts[name, verdict]:12}" for verdict in VERDICTS))
    totals = (sum(n for (_, v), n in counts.items() if v == verdict) for verdict in VERDICTS)
    return "\n".join([*lines, f"{'all':12}" + "".join(f"{total:12}" for total in totals)])


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
    parser.add_argument("--sql-rules", nargs="*", choices=SQL_RULES, default=SQL_RULES,
        help="kinds of changes of SQL files")  # fmt: skip
    parser.add_argument("--budget", type=float, default=30, help="CPU seconds per mutant")
    parser.add_argument("--list", action="store_true", help="show the mutants; test none")
    parser.add_argument("--record", action="store_true", help="first record the lines of tests")
    options = parser.parse_args()
    chosen = [area for area in areas if not options.area or area.name in options.area]

    def is_wanted(mutant: Mutant) -> bool:
        is_sql = mutant.path.suffix == ".sql"
        return fnmatch.fnmatch(str(mutant.path.relative_to(ROOT)), options.files) and (
            not is_sql or mutant.mutation.rule in options.sql_rules
        )

    # After the choice, so that a new entry changes no other mutants of a seed.
    left_out = [*configuration["equivalent"], *configuration["harmful"]]
    mutants = [
        mutant
        for mutant in pick(chosen, options.count, options.seed, is_wanted)
        if not any(_is_same(mutant, entry) for entry in left_out)
    ]
    if options.list:
        print("\n".join(map(str, mutants)))
        return
    if options.record:
        for area in chosen:
            area.record(os.environ)
    print(summary(run_all(mutants, options.workers, options.budget)))


if __name__ == "__main__":
    main()
