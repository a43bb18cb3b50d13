"""No circle of files: no module needs another one that needs it, at any distance.

``make lint`` checks the layers, and circles of packages and of modules beside each other. This test
adds the ``__init__.py`` of packages, and modules that are named in texts and imported on demand.
"""

from __future__ import annotations

import re
from functools import cache
from graphlib import CycleError, TopologicalSorter

import grimp

from corpus import ROOT

PIPELINE = ROOT / "pipeline"
# "tbd_trace.api", or "tbd_trace.sources.nsys.reader:SOURCE" with an attribute.
NAMED = re.compile(r'"(tbd_trace(?:\.\w+)+)(?::\w+)?"')
COMPUTED_BY = re.compile(r'^computed_by = "(.+)"$', re.MULTILINE)


@cache
def imports() -> dict[str, set[str]]:
    """Return the modules that each module imports, in functions and for types, too."""
    packages = ("tbd_trace", "tbd_collectors", "tbd_models")
    graph = grimp.build_graph(*packages, exclude_type_checking_imports=False, cache_dir=None)
    return {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}


def named() -> dict[str, set[str]]:
    """Return the modules that the text of each module of tbd_trace names."""
    found = {}
    for path in (PIPELINE / "tbd_trace").rglob("*.py"):
        parts = path.relative_to(PIPELINE).with_suffix("").parts
        module = ".".join(parts).removesuffix(".__init__")
        found[module] = set(NAMED.findall(path.read_text("utf-8")))
    return found


def computing() -> set[str]:
    """Return the modules that headers of queries name."""
    files = (ROOT / "queries").rglob("*.sql")
    return {name for path in files for name in COMPUTED_BY.findall(path.read_text("utf-8"))}


def circle(needs: dict[str, set[str]]) -> list[str]:
    """Return modules each of which imports the one before it, empty without a circle."""
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found
    return []


def test_no_modules_import_each_other() -> None:
    needs = imports()
    assert "tbd_trace.api" in needs["tbd_trace"]  # an import in a function, and for types
    found = circle(needs)
    assert not found, f"circle of imports: {' <- '.join(found)}"


def test_modules_that_are_named_make_no_circle() -> None:
    needs = imports()
    on_demand = named()
    assert "tbd_trace.sources.nsys.detection" in on_demand["tbd_trace.sources.nsys"]
    on_demand["tbd_trace.query.computed"] |= computing()
    assert computing() <= needs.keys()
    found = circle(
        {name: needs[name] | (on_demand.get(name, set()) & needs.keys()) for name in needs}
    )
    assert not found, f"circle of imports: {' <- '.join(found)}"


def test_a_circle_is_found_from_any_module() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) in (["b", "c", "b"], ["c", "b", "c"])
    assert circle({"a": {"b"}, "b": {"c"}, "c": set()}) == []
