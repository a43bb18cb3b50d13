"""Requirements of tests: known in one place, never asked for at import."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator

import pytest

import requirements
from corpus import ROOT, corpus_files
from fast import first_of_each_format, one_in
from parameters import Parameters
from suite_syntax import Suite

TESTS = ROOT / "tests"
IMPORTS = (
    "import shutil, subprocess, pytest, fast, requirements\n"
    "from corpus import corpus_file, corpus_files, reference_rows\n"
    "from parameters import Parameters\n"
)


@pytest.fixture
def without_collection() -> Iterator[None]:
    """Collect no garbage, which doubles the time that all syntax trees take."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.slow
@pytest.mark.usefixtures("without_collection")
def test_no_module_asks_at_import_or_in_its_own_way() -> None:
    sources = {
        path.relative_to(TESTS).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(TESTS.rglob("*.py"))
    }
    assert len(sources) > 350
    assert [str(finding) for finding in Suite(sources).findings()] == []


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        # As in the modules that once failed in a clone without the traces and tools.
        (
            "from corpus import CORPUS\n"
            "@pytest.mark.parametrize('path', [p for p in CORPUS.glob('*')])\n"
            "def test(path): ...",
            "CORPUS itself",
        ),
        (
            "from corpus import REFERENCE\n"
            "def test():\n    truth = (REFERENCE / 'truth.json').read_text()",
            "REFERENCE itself",
        ),
        ("@pytest.mark.tool\ndef test(): ...", "mark tool"),
        # Folders in other ways.
        ("from requirements import CASES\nHOSTILE = sorted(CASES.glob('*'))", "CASES itself"),
        ("import corpus\nHOSTILE = corpus.CASES / 'hostile'", "CASES itself"),
        ("import os\nPLACE = os.environ['TBD_TRACE_CORPUS']", "TBD_TRACE_CORPUS itself"),
        # At import: statements, decorators, defaults, classes, functions.
        ("FILE = corpus_file('nsys/a')", "corpus.corpus_file at import"),
        ("class Test:\n    rows = reference_rows('a.csv')", "corpus.reference_rows at import"),
        ("def read(rows=reference_rows('a.csv')): ...", "corpus.reference_rows at import"),
        (
            "@pytest.mark.parametrize('row', reference_rows('a.csv'))\ndef test(row): ...",
            "corpus.reference_rows at import",
        ),
        (
            "def rows():\n    return reference_rows('a.csv')\nROWS = rows()",
            "corpus.reference_rows at import",
        ),
        ("requirements.require('nsys')", "requirements.require at import"),
        ("if shutil.which('nsys'):\n    NSYS = True", "shutil.which at import"),
        ("from shutil import which as found\nNSYS = found('nsys')", "shutil.which at import"),
        ("DONE = subprocess.run(['nsys'])", "subprocess.run at import"),
        ("FILES = [path for path in corpus_files('*')]", "makes parameters at import"),
        ("FILES = fast.one_in(2, corpus_files('*'))\nA = [1, *FILES]", "makes parameters at"),
        ("ROWS = sorted(Parameters(list))", "makes parameters at import"),
        (
            "@pytest.fixture(params=corpus_files('*')[::2])\ndef path(): ...",
            "makes parameters at import",
        ),
        # In a way of its own.
        ("def test():\n    assert shutil.which('nsys')", "shutil.which"),
        (
            "def test(path):\n    if not path.is_file():\n        pytest.skip('no table')",
            "finds out whether to skip",
        ),
        (
            "import os\n@pytest.mark.skipif(os.geteuid() != 0, reason='only some may')\n"
            "def test(): ...",
            "finds out whether to skip",
        ),
        ("def test():\n    pytest.skip('nsys is not installed')", "a reason of its own"),
        ("def test(path):\n    pytest.skip(f'no reference table {path}')", "a reason of its own"),
        ("torch = pytest.importorskip('torch', reason='not installed')", "a reason of its own"),
        ("def test():\n    pytest.skip('needs root')", "a reason of its own"),
    ],
)
def test_faults_are_found(source: str, problem: str) -> None:
    found = Suite({"unit/test_made.py": IMPORTS + source}).findings()
    assert any(finding.problem.startswith(problem) for finding in found)
    lines = (IMPORTS + source).count("\n") + 1
    assert all(re.match(r"unit/test_made\.py:\d+: ", str(finding)) for finding in found)
    assert all(3 < finding.line <= lines for finding in found)


def test_a_fault_in_a_helper_that_a_module_calls_at_import_is_found() -> None:
    helper = "from corpus import reference_rows\ndef rows(): return reference_rows('a.csv')"
    module = "import made_rows\nROWS = made_rows.rows()"
    found = Suite({"helpers/made_rows.py": helper, "unit/test_made.py": module}).findings()
    assert list(map(str, found)) == ["helpers/made_rows.py:2: corpus.reference_rows at import"]


@pytest.mark.parametrize(
    "source",
    [
        "FILES = fast.one_in(6, corpus_files('nsys/*')[::2])\n"
        "@pytest.mark.parametrize('path', FILES)\ndef test(path): ...",
        "def rows():\n    return reference_rows('a.csv')\nROWS = Parameters(rows)",
        "def test():\n    assert [path for path in corpus_files('*')]",
        "@pytest.mark.needs('nsys')\ndef test():\n    subprocess.run(['nsys'])",
        "def test(file):\n    if not file.rows:\n        pytest.skip('no API calls in this file')",
        "torch = pytest.importorskip('torch')",
        "if __name__ == '__main__':\n    print(reference_rows('a.csv'))",
    ],
)
def test_tests_and_parameters_that_are_made_later_may_ask(source: str) -> None:
    assert Suite({"unit/test_made.py": IMPORTS + source}).findings() == []


def test_parameters_are_made_once_and_late() -> None:
    made = []

    def make() -> list[int]:
        made.append(1)
        return [1, 2, 3, 4, 5]

    some = one_in(2, Parameters(make)[::2])
    assert made == []
    assert [getattr(one, "values", (one,))[0] for one in some] == [1, 3, 5]
    assert len(some) == 3
    assert made == [1]


def test_parameters_without_their_requirement_are_one_that_skips() -> None:
    files = first_of_each_format(corpus_files("no_such_folder/*"))
    (parameter,) = files
    assert parameter.id == "missing"
    (mark,) = parameter.marks
    assert mark.kwargs["reason"].startswith("needs corpus: no ")
    (two,) = Parameters(lambda: requirements.lacks("reference", "it is empty"), arguments=2)
    assert len(two.values) == 2


def test_each_requirement_says_why_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    for variable in ("TENSORFLOW_PYTHON", "MXNET_PYTHON", "TRACE_PROCESSOR"):
        monkeypatch.delenv(f"TBD_TRACE_{variable}", raising=False)
    names = ("nsys", "nvprof", "ncu", "chromium", "tc", "setpriv", "tensorflow", "mxnet")
    reasons = [requirements.reason(name) for name in (*names, "trace_processor")]
    assert reasons[3] == "needs chromium: chromium and chromedriver not installed"
    assert all(re.match(r"needs \w+: \w+ ", reason) for reason in reasons)
    assert requirements.first_reason(("nvprof", "nsys")) == reasons[1]
    assert requirements.first_reason(()) == ""
    with pytest.raises(pytest.skip.Exception, match="needs nsys: nsys not installed"):
        requirements.require("nsys")
