"""Single changes of source: each rule on a small text, and all of them on the project's files."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

import mutants_tests
from corpus import ROOT
from mutants_tests import Area, users
from mutations import mutations


def changed(name: str, text: str) -> set[str]:
    return {mutation.apply(text) for mutation in mutations(name, text)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a <= b", {"a < b"}),
        ("a <> b", {"a = b"}),
        ("f(x -> x)", set()),
        ("a - b", {"a + b"}),
        ("count(*)", set()),
        ("LEFT JOIN t", {"JOIN t"}),
        ("JOIN t", {"LEFT JOIN t"}),
        ("ANTI JOIN t", set()),
        ("x BETWEEN a AND b AND c", {"x BETWEEN a AND b OR c"}),
        ("WHERE a OR b", {"WHERE true OR a OR b", "WHERE a AND b"}),
        ("count(*) FILTER (f(a))", {"count(*)"}),
        ("coalesce(f(a, [b, c]), d)", {"(f(a, [b, c]))"}),
        ("min(a)", {"max(a)"}),
        ("sum(a)", {"avg(a)"}),
        ("DISTINCT a", {"a"}),
        ("a IS NOT DISTINCT FROM b", {"a IS DISTINCT FROM b"}),
        ("9", {"8", "10"}),
        ("0.5", {"1.5", "-0.5"}),
        ("/* a = 1 */ 'b = 2' -- c = 3", set()),
    ],
)
def test_rules_of_sql(text: str, expected: set[str]) -> None:
    assert changed("q.sql", text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a < b <= c", {"a <= b <= c", "a < b < c"}),
        ("a is not b", {"a is b"}),
        ("(a) not in b", {"(a) in b"}),
        ("'ä' + a", {"'ä' - a"}),
        ("a // b", {"a * b"}),
        ("a and b or c", {"a or b or c", "a and b and c"}),
        ("not a", {"a"}),
        ("not (a)", {"(a)"}),
        ("True", {"False"}),
        ("f(9)", {"f(8)", "f(10)"}),
        ("max(a)", {"min(a)"}),
        ("a if b else c", {"a if (not (b)) else c"}),
        ("@f(frozen=True)\ndef g(a: 'x' == 1) -> 2: pass", set()),
        ("f'{a + 1}'", set()),
        ("zip(a, b, strict=True)", set()),
        ("'a + 1'", set()),
    ],
)
def test_rules_of_python(text: str, expected: set[str]) -> None:
    assert changed("m.py", text) == expected


def test_each_mutation_of_python_is_another_valid_program() -> None:
    text = (ROOT / "pipeline" / "tbd_trace" / "sqlite_io" / "columns.py").read_text("utf-8")
    dumps = [ast.dump(ast.parse(mutation.apply(text))) for mutation in mutations("a.py", text)]
    assert len({*dumps, ast.dump(ast.parse(text))}) == len(dumps) + 1


def test_tests_of_a_relation_are_those_of_the_queries_that_use_it() -> None:
    path = ROOT / "queries" / "derive" / "counters" / "kernel_utilization.sql"
    assert users(path)[0] == {"kernel_utilization"}
    assert "low_util_kernels" in users(path)[1]
    golden, unit = (
        "tests/golden/test_golden.py",
        "tests/unit/queries/metrics/utilization/test_utilization.py",
    )
    found = Area("made", (), (golden, unit)).tests_of(path, 1)
    assert f"{golden}::test_query_returns_the_committed_rows[low_util_kernels.tensor]" in found
    assert {test.split("::")[0] for test in found} == {golden, unit}
    assert not any("worked" in test or "[trace_info]" in test for test in found)


def test_tests_of_a_check_name_its_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutants_tests, "USES", tmp_path)
    path = ROOT / "queries" / "derive" / "memory" / "_relevant_memory.sql"
    module = "tests/unit/queries/checks/test_checks_memory.py"
    found = Area("made", (), (module,)).tests_of(path, 1)
    assert f"{module}::test_the_threshold_of_feature_maps" in found


_SOURCE = """\
LIMIT = 1


def limited(count: int = 2) -> bool:
    return count > LIMIT


class Line:
    width: int = 3

    def doubled(self) -> int:
        return 2 * self.width


print(limited())
"""


@pytest.mark.parametrize(
    ("line", "tests"),
    [
        (5, ["own[a]", "narrow", "own[b]"]),
        (12, ["other"]),
        (1, ["own[a]", "narrow", "own[b]"]),  # the function that uses the constant
        (4, ["own[a]", "narrow", "own[b]"]),  # the function with the default
        (9, ["other"]),  # the method that uses the attribute
        (15, ["other", "own[a]", "narrow", "own[b]"]),  # runs at the import
    ],
)
def test_tests_of_a_line_are_those_that_run_what_uses_it(
    line: int, tests: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One case of each comes first, of those a fast test that runs little but the file.

    Without a test that runs the line, those of the file follow; then modules that are named as the
    file, and not recorded.
    """
    module = tmp_path / "tests" / "test_made.py"
    module.parent.mkdir()
    module.write_text("")
    module.with_name("test_made_anew.py").write_text("")
    (tmp_path / "made.py").write_text(_SOURCE)
    uses = {
        "narrow": {"seconds": 1.5, "files": {"made.py": [5], "more.py": [1]}},
        "own[a]": {"seconds": 2.0, "files": {"made.py": [4, 5]}},
        "own[b]": {"seconds": 2.1, "files": {"made.py": [4, 5]}},
        "other": {"seconds": 0.1, "files": {"made.py": [12]}},
    }
    (tmp_path / "tests.test_made.json").write_text(json.dumps(uses))
    for constant in ("ROOT", "USES"):
        monkeypatch.setattr(mutants_tests, constant, tmp_path)
    area = Area("made", (), ("tests/test_*.py",))
    assert area.tests_of(tmp_path / "made.py", line) == [*tests, "tests/test_made_anew.py"]


def test_committed_rows_of_the_nearest_queries_are_compared() -> None:
    module = "tests/generated/test_generated.py"
    path = ROOT / "queries" / "diff" / "comparability.sql"
    found = Area("made", (), (module,)).tests_of(path, 1)
    test = f"{module}::test_columns_have_the_committed_digests"
    pairs = [f"{test}[diff/comparability-pair={number}" for number in (1, 2, 3)]
    assert found == [f"{pair}{end}]" for end in ("", "-traces=varied") for pair in pairs]
