"""Choose the tests that can detect the change of a file, the most likely ones first."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pytest import ExitCode

ROOT = Path(__file__).resolve().parent.parent
QUERIES = ROOT / "queries"
GOLDEN = ROOT / "tests" / "golden"
GENERATED = ROOT / "tests" / "generated"
USES = ROOT / ".mutants"
"""Directory of the files of `mutants_plugin.py`, one per module of tests."""
_OWN = "test_mutations.py"  # tests of this tool
_NEAR = 2  # a relation itself, and the queries that read it
_FIRST = 4  # cases of one module before tests that name a query
_ENOUGH = 16  # cases of one module and distance
_START_S = 0.5  # of a test that does little, with its set-up
_ANSWERS = ("metrics", "checks", "diff")  # read by no other query


@dataclass(frozen=True, slots=True)
class Area:
    """Files to mutate, and the tests that must detect it."""

    name: str
    files: Sequence[str]  # glob patterns
    tests: Sequence[str]  # glob patterns, in the order to run

    def paths(self) -> list[Path]:
        """Return the files to mutate."""
        return _matching(self.files)

    def _modules(self) -> list[Path]:
        return [module for module in _matching(self.tests) if module.name != _OWN]

    def tests_of(self, path: Path, line: int) -> list[str]:
        """Return the ids of the tests that can detect the mutation of a line.

        The first compares the default of a parameter with its header. Then, of modules with
        recorded lines, the tests that run the line, or if none does, the file or its reader; the
        most likely ones first. With a query, tests of the nearest queries precede them: some
        committed rows, tests that name a query, then the other committed rows. Modules with the
        name of the file follow. Of other modules, the tests that name the file, or queries that use
        it. Without any, all tests.
        """
        modules = self._modules()
        golden = [module for module in modules if _compares_rows(module)]
        recorded = [module for module in modules if module not in golden and _uses(module)]
        others = [module for module in modules if module not in golden and module not in recorded]
        levels = [names | _rules(names) for names in users(path)]
        running = _running(recorded, path, line)
        has_digests = path.is_relative_to(QUERIES)
        chosen = [] if has_digests else [*running]
        for names in levels[:_NEAR]:
            rows = [list(_rows(module, names)) for module in golden]
            chosen += (test for tests in rows for test in tests[:_FIRST])
            named = [*others, *recorded] if path.suffix == ".sql" else others
            for module in sorted(named, key=lambda module: _likeness(module, path), reverse=True):
                chosen += _naming(module, names)
            chosen += (test for tests in rows for test in tests)
        for names in levels[_NEAR:]:  # they have one set-up for all cases
            generated = [module for module in golden if module.parent == GENERATED]
            chosen += (test for module in generated for test in _rows(module, names))
        chosen += (test for module in golden for test in _all_tests(module))
        chosen += running
        own = path.stem.strip("_")
        # pytest would run the tests above in the place of their module.
        named_alike = (module for module in modules if own in module.stem)
        chosen += (str(m.relative_to(ROOT)) for m in named_alike if m not in recorded)
        for names in levels[_NEAR:]:
            chosen += (test for module in others for test in _naming(module, names))
        return list(dict.fromkeys(chosen)) or [str(module.relative_to(ROOT)) for module in modules]

    def record(self, environment: Mapping[str, str]) -> None:
        """Write the files of `mutants_plugin.py` that are missing, for all modules of tests.

        Raises:
            SystemExit: a test fails.
        """
        USES.mkdir(exist_ok=True)
        for module in self._modules():
            if _compares_rows(module) or _uses(module):
                continue
            target = _uses_file(module)
            words = ["-q", "-m", "not nightly", "--few-examples"]
            words += ["-p", "mutants_plugin", "--uses", str(target)]
            command = [sys.executable, "-m", "pytest", *words, str(module.relative_to(ROOT))]
            print(f"{target.relative_to(ROOT)}", flush=True)
            done = subprocess.run(command, cwd=ROOT, env=dict(environment), check=False)
            if done.returncode not in (ExitCode.OK, ExitCode.NO_TESTS_COLLECTED):
                raise SystemExit(f"error: {module}: a test fails")


@cache
def users(path: Path) -> Sequence[frozenset[str]]:
    """Return the name of a file, then the names of the queries one, two, … steps above it."""
    levels, known = [frozenset({path.stem})], {path.stem}
    is_read = path.is_relative_to(QUERIES) and path.relative_to(QUERIES).parts[0] not in _ANSWERS
    while is_read:
        new = {file.stem for file in QUERIES.rglob("*.sql") if _words(file) & levels[-1]} - known
        if not new:
            break
        levels.append(frozenset(new))
        known |= new
    return levels


def _likeness(module: Path, path: Path) -> int:
    # How many of the file and its folders a module of tests and its folders are named after.
    folders = path.relative_to(ROOT).parts[:-1]
    words = {path.stem.strip("_"), *(folder.removesuffix("s") for folder in folders)}
    return sum(word in module.relative_to(ROOT).as_posix() for word in words)


def _compares_rows(module: Path) -> bool:
    return module.parent == GOLDEN or module.name in _CASES


def _rows(module: Path, names: frozenset[str]) -> Iterator[str]:
    # Some cases of a module with a case per query.
    if module.name in _CASES:
        test, cases = _CASES[module.name]
        matching = [case for case in cases() if _query(case) in names]
        yield from (f"{module.relative_to(ROOT)}::{test}[{case}]" for case in matching[:_ENOUGH])


def _all_tests(module: Path) -> Iterator[str]:
    # The tests of a module without a case per query.
    for name in _functions(module):
        if module.name not in _CASES and "worked" not in name and "readme" not in name:
            yield f"{module.relative_to(ROOT)}::{name}"


def _query(case: str) -> str:
    # A case is the name of a query, some with a folder before and parameters behind.
    return re.split("[.-]", case.rpartition("/")[2])[0]


@cache
def _worked() -> list[str]:
    return sorted(file.stem for file in GOLDEN.glob("*.csv"))


@cache
def _generated() -> list[str]:
    lines = (GENERATED / "query_digests.csv").read_text(encoding="utf-8").splitlines()[1:]
    return list(dict.fromkeys(line.split(",")[0] for line in lines))


_CASES = {
    "test_golden.py": ("test_query_returns_the_committed_rows", _worked),
    "test_generated.py": ("test_columns_have_the_committed_digests", _generated),
}  # module, test, and its cases


def _rules(names: frozenset[str]) -> frozenset[str]:
    # Tests name checks by their rules.
    files = (QUERIES / "checks" / f"{name}.sql" for name in names)
    texts = (file.read_text(encoding="utf-8") for file in files if file.exists())
    return frozenset(
        rule for text in texts for rule in re.findall(r'^rule *= *"(\w+)"', text, re.M)
    )


def _naming(module: Path, names: frozenset[str]) -> Iterator[str]:
    for name, words in _functions(module).items():
        if words & names:
            yield f"{module.relative_to(ROOT)}::{name}"


@cache
def _functions(module: Path) -> dict[str, frozenset[str]]:
    # Tests by name, with their words and those of the functions and constants they use.
    text = module.read_text(encoding="utf-8")
    lines, words = text.splitlines(), dict[str, frozenset[str]]()
    for node in ast.parse(text).body:
        decorators: list[ast.expr] = getattr(node, "decorator_list", [])
        first = min([node.lineno, *(decorator.lineno for decorator in decorators)])
        own = frozenset(re.findall(r"\w+", "\n".join(lines[first - 1 : node.end_lineno])))
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            words.update({ast.unparse(target): own for target in targets})
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            words[node.name] = own
    changed = True
    while changed:
        wider = {
            name: own.union(*(words[word] for word in own & words.keys()))
            for name, own in words.items()
        }
        changed, words = wider != words, wider
    return {name: own for name, own in words.items() if name.startswith(("test_", "Test"))}


def _running(modules: Iterable[Path], path: Path, line: int) -> list[str]:
    # Tests that run a line, or if there are none, any line of its file; of a mapping in SQL, tests
    # that run its reader. One case of each test comes before its other cases, and fast tests that
    # run little but this file before others.
    file, lines = path.relative_to(ROOT).as_posix(), _lines_of_users(path, line)
    prefix = file if path.suffix == ".py" else f"{path.parent.parent.relative_to(ROOT).as_posix()}/"
    tests = {name: test for module in modules for name, test in _uses(module).items()}

    def worth(name: str) -> float:
        used: dict[str, list[int]] = tests[name]["files"]
        own = sum(len(run) for used_file, run in used.items() if used_file.startswith(prefix))
        share = own / max(sum(map(len, used.values())), 1)
        return share / (_START_S + float(tests[name]["seconds"]))

    worths = {name: worth(name) for name in tests}
    file_tests = [
        name for name in sorted(tests, key=worths.__getitem__, reverse=True) if worths[name]
    ]
    line_tests = [
        name for name in file_tests if not lines.isdisjoint(tests[name]["files"].get(file, ()))
    ]
    return _cases_in_turn(line_tests or file_tests)


def _cases_in_turn(tests: Iterable[str]) -> list[str]:
    # The first case of each test, then the second of each, and so on.
    cases, turns = Counter[str](), dict[str, int]()
    for name in tests:
        function = name.partition("[")[0]
        turns[name] = cases[function]
        cases[function] += 1
    return sorted(turns, key=turns.__getitem__)


def _lines_of_users(path: Path, line: int) -> frozenset[int]:
    # A constant or default is evaluated at the import. A change shows in the functions that use the
    # name of the constant, and in the body of the function with the default.
    if path.suffix != ".py":
        return frozenset({line})
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    bodies = {node: _lines(node.body[0], node.body[-1]) for node in functions}
    if any(line in body for body in bodies.values()):
        return frozenset({line})
    headed = [node for node in functions if line in _lines(node, node)]
    assigned = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign | ast.AnnAssign) and line in _lines(node, node)
    ]
    names = {name for node in assigned for name in _names(node, ast.Store)}
    using = [node for node in functions if names & _names(node, ast.Load)]
    return frozenset({line}).union(*(bodies[node] for node in headed or using))


def _names(node: ast.AST, use: type[ast.expr_context]) -> set[str]:
    # Of variables and attributes.
    nodes = (each for each in ast.walk(node) if isinstance(each, ast.Name | ast.Attribute))
    return {
        each.id if isinstance(each, ast.Name) else each.attr
        for each in nodes
        if isinstance(each.ctx, use)
    }


def _lines(first: ast.stmt, last: ast.stmt) -> range:
    return range(first.lineno, (last.end_lineno or last.lineno) + 1)


def _uses_file(module: Path) -> Path:
    # Modules of different folders have the same name.
    return USES / f"{'.'.join(module.relative_to(ROOT).with_suffix('').parts)}.json"


@cache
def _uses(module: Path) -> dict[str, Any]:
    file = _uses_file(module)
    if not file.exists() or file.stat().st_mtime < module.stat().st_mtime:
        return {}
    uses: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return uses


def _matching(patterns: Iterable[str]) -> list[Path]:
    # In the order of the patterns.
    return list(dict.fromkeys(path for each in patterns for path in sorted(ROOT.glob(each))))


@cache
def _words(file: Path) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", file.read_text(encoding="utf-8")))
