"""The fuzzer finds defects that are planted in the program, and makes the same inputs again."""

from __future__ import annotations

import pickle
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from fuzz import target as target_module
from fuzz.changes import MARKER, change_pickle
from fuzz.counts import count_kernels
from fuzz.runner import fuzz
from fuzz.seeds import KERNELS, KINDS
from fuzz.target import ANSWERED, DEFECT, REFUSED, Target


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return Target(tmp_path, seed=1)


def unchanged(*_: object) -> None:
    """Leave the seed as it is."""


def drop_a_kernel(_: Any, path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE rowid = 1")
    database.close()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_seeds_are_answered(target: Target, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setitem(target_module.CHANGES, kind, unchanged)
    assert target.run(kind, 0).verdict == ANSWERED


def test_plain_counts_are_those_of_the_seeds(tmp_path: Path) -> None:
    path = KINDS["nvprof-csv"](tmp_path)
    total = 1000 * sum(40 + i for i in range(KERNELS)) + 250 * KERNELS
    assert count_kernels("nvprof-csv", path) == (KERNELS, total)
    assert count_kernels("nvprof", KINDS["nvprof"](tmp_path)) == (KERNELS, 50 * KERNELS)


@pytest.mark.slow
def test_a_wrong_count_is_a_defect(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(target_module.CHANGES, "nsys", unchanged)
    monkeypatch.setattr(target_module, "count_kernels", lambda *_: (1, 1))
    outcome = target.run("nsys", 0)
    assert outcome.verdict == DEFECT
    assert "instead of (1, 1), without a note" in outcome.message


@pytest.mark.slow
def test_a_smaller_file_is_counted_anew(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(target_module.CHANGES, "nsys", drop_a_kernel)
    assert target.run("nsys", 0).verdict == ANSWERED


@pytest.mark.parametrize("error", [KeyError("name"), RecursionError(), MemoryError()])
def test_other_exceptions_are_defects(
    target: Target, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setitem(target_module.CHANGES, "mxnet-csv", unchanged)
    target.run("mxnet-csv", 0)
    monkeypatch.setattr(target_module, "identified_files", fail)
    outcome = target.run("mxnet-csv", 0)
    assert outcome.verdict == DEFECT
    assert type(error).__name__ in outcome.message


def test_an_executed_pickle_is_a_defect(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        target_module.CHANGES, "snapshot", lambda _, path: (path.parent / MARKER).touch()
    )
    assert target.run("snapshot", 0).message == "a pickle was executed"


class PlantFirst:
    """Random numbers of which the first plants a call at the beginning of the pickle."""

    def random(self) -> float:
        return 0.0

    def choice(self, options: Any) -> Any:
        return options[0]

    def randrange(self, first: int, _: int) -> int:
        return first


def test_planted_pickles_would_run(tmp_path: Path) -> None:
    path = KINDS["snapshot"](tmp_path)
    change_pickle(PlantFirst(), path)  # type: ignore[arg-type]
    pickle.loads(path.read_bytes())
    assert (tmp_path / MARKER).exists()


def test_planted_pickles_are_refused(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        target_module.CHANGES,
        "snapshot",
        lambda _, path: change_pickle(PlantFirst(), path),  # type: ignore[arg-type]
    )
    assert target.run("snapshot", 0).verdict == REFUSED


@pytest.mark.slow
def test_equal_seeds_make_equal_inputs(tmp_path: Path) -> None:
    contents = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        outcome = Target(tmp_path / folder, seed=7).run("kineto", 3)
        contents.append(Path(outcome.path).read_bytes())
    assert contents[0] == contents[1]


def test_failures_are_kept_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def __init__(self, _: int) -> None:
            self.path = tmp_path / "a.csv"
            self.path.touch()

        def run(self, kind: str, number: int) -> tuple[target_module.Outcome, bool]:
            return target_module.Outcome(kind, number, DEFECT, "", str(self.path)), False

        def close(self) -> None:
            self.path.unlink()

    monkeypatch.setattr("fuzz.runner._Worker", Broken)
    list(fuzz([("mxnet-csv", 4)], 1, None, tmp_path / "failures"))
    assert (tmp_path / "failures" / "mxnet-csv-1-4" / "a.csv").is_file()
