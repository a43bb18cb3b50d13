"""Where ranges go."""

from __future__ import annotations

import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from tbd_models.instrument.marks import (
    DOMAIN,
    Marks,
    NoMarks,
    NvtxMarks,
    WindowMarks,
    iteration_text,
    marked,
)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the calls to a package nvtx that stands in for the real one."""
    found: list[Any] = []

    def note(name: str) -> Any:
        def call(*arguments: Any, **options: Any) -> str:
            found.append((name, *arguments, *options.items()))
            return "handle"

        return call

    names = ("push_range", "pop_range", "start_range", "end_range")
    monkeypatch.setitem(sys.modules, "nvtx", SimpleNamespace(**{n: note(n) for n in names}))
    return found


def test_ranges_go_to_a_domain_of_their_own(calls: list[Any]) -> None:
    marks = NvtxMarks()
    with marked(marks, "iteration 0"):
        handle = marks.start("phase:data")
        marks.end(handle)
    domain = ("domain", DOMAIN)
    assert calls == [
        ("push_range", "iteration 0", domain),
        ("start_range", "phase:data", domain),
        ("end_range", "handle"),
        ("pop_range", domain),
    ]


def test_a_range_ends_with_its_block_whatever_happens(calls: list[Any]) -> None:
    def fail() -> None:
        with marked(NvtxMarks(), "x"):
            raise ValueError

    with pytest.raises(ValueError):
        fail()
    assert [call[0] for call in calls] == ["push_range", "pop_range"]


def test_marks_without_their_package_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nvtx", None)
    with pytest.raises(ImportError, match="nvtx"):
        NvtxMarks()


def _use(marks: Marks) -> None:
    for number in range(3):
        with marked(marks, f"iteration {number}"):
            handles = [marks.start("phase:a"), marks.start("phase:b")]
            for handle in handles:
                marks.end(handle)


def test_marks_work_without_a_profiler() -> None:
    _use(NoMarks())
    pytest.importorskip("nvtx")
    _use(NvtxMarks())


def _ranges(calls: list[Any]) -> list[tuple[str, ...]]:
    return [call[:2] if call[0] in ("push_range", "start_range") else call[:1] for call in calls]


def test_ranges_of_a_window_are_emitted_alone(calls: list[Any]) -> None:
    marks = WindowMarks(NvtxMarks())
    before = marks.start("phase:before")
    marks.push("layer:before")
    marks.is_open = True
    marks.push("layer:inside")
    inside = marks.start("phase:inside")
    marks.is_open = False
    marks.push("layer:after")
    after = marks.start("phase:after")
    for handle in (before, inside, after):
        marks.end(handle)
    for _ in range(3):
        marks.pop()
    assert _ranges(calls) == [
        ("push_range", "layer:inside"),
        ("start_range", "phase:inside"),
        ("end_range",),
        ("pop_range",),
    ]


def test_each_thread_ends_its_own_ranges(calls: list[Any]) -> None:
    marks = WindowMarks(NvtxMarks())
    marks.push("closed")
    marks.is_open = True

    def other() -> None:
        with marked(marks, "open"):
            pass

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    marks.pop()
    assert _ranges(calls) == [("push_range", "open"), ("pop_range",)]


def test_iterations_before_the_window_are_warm_up() -> None:
    texts = [iteration_text(number, 2) for number in range(4)]
    assert texts == ["warm-up 0", "warm-up 1", "iteration 2", "iteration 3"]
    assert iteration_text(0, 0) == "iteration 0"
