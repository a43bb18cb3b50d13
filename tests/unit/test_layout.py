"""The unit tests mirror the tree: ``store/checksums.py`` has ``store/test_checksums.py``."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from corpus import ROOT

UNIT = ROOT / "tests" / "unit"
THROUGH = UNIT / "tested_through.toml"
# The source of each folder of unit tests; deeper folders have the names of the source's.
PACKAGES = {
    "": ROOT / "pipeline" / "tbd_trace",
    "collectors": ROOT / "collectors" / "tbd_collectors",
    "models": ROOT / "models" / "tbd_models",
}
OTHERS = {
    "benchmarks": ROOT / "benchmarks",
    "fuzz": ROOT / "tests" / "fuzz",
    "helpers": ROOT / "tests" / "helpers",
    "queries": ROOT / "queries",
    "tools": ROOT / "tools",
}
# Tests of the tree itself.
OF_ALL_SOURCES = {Path(__file__), UNIT / "test_imports.py"}


def sources() -> dict[str, Path]:
    """Return the modules of the three packages, by their path in ``tests/unit``."""
    found = {}
    for folder, package in PACKAGES.items():
        for path in package.rglob("*.py"):
            name = path.relative_to(package).with_suffix("")
            if not name.name.startswith("__"):
                found[(Path(folder) / name).as_posix()] = path
    return found


def own_tests(name: str) -> list[Path]:
    """Return the test modules named after a module: test_<module>.py, test_<module>_<topic>.py."""
    folder, module = (UNIT / name).parent, Path(name).name
    return [*folder.glob(f"test_{module}.py"), *folder.glob(f"test_{module}_*.py")]


def through() -> list[dict[str, object]]:
    found: list[dict[str, object]] = tomllib.loads(THROUGH.read_text("utf-8"))["through"]
    return found


def listed() -> list[str]:
    return [name for group in through() for name in group["modules"]]  # type: ignore[attr-defined]


def test_each_module_has_tests_or_a_line_about_them() -> None:
    names = listed()
    assert len(names) == len(set(names))
    assert set(names) == {name for name in sources() if not own_tests(name)}


@pytest.mark.parametrize("group", through(), ids=lambda group: group["command"])
def test_the_named_tests_exist(group: dict[str, object]) -> None:
    assert (ROOT / "tests" / str(group["tests"])).is_file()
    assert group["modules"]


def _named_in(folder: Path) -> set[str]:
    # What a module of tests can be named after: a file of the folder, or the folder itself.
    found = {path.stem.strip("_") for path in folder.iterdir()}
    return found | {folder.name.removeprefix("tbd_")}


@pytest.mark.parametrize(
    "path", sorted({*UNIT.rglob("test_*.py")} - OF_ALL_SOURCES), ids=lambda path: path.name
)
def test_each_test_module_lies_where_its_source_lies(path: Path) -> None:
    folder = path.parent.relative_to(UNIT)
    first = folder.parts[0] if folder.parts else ""
    root = {**PACKAGES, **OTHERS}.get(first, PACKAGES[""] / first)
    source = root.joinpath(*folder.parts[1:])
    assert source.is_dir(), f"no {source.relative_to(ROOT)}"
    name = path.stem.removeprefix("test_")
    assert any(name == one or name.startswith(f"{one}_") for one in _named_in(source))
