"""Names of runs in tables, plots and pages."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tbd_trace.present.run_names import run_names

_LONG = "somebody_sc22-tutorial__sample_nsys_profiles__{}.qdrep.exp2022.4.sqlite"


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["run1.sqlite", "run2.nsys-rep"], ["run1", "run2"]),
        (["worker0.pt.trace.json.gz"], ["worker0"]),
        (["v1.2.sqlite"], ["v1.2"]),
        (["resnet/timeline.sqlite", "bert/timeline.sqlite"], ["resnet", "bert"]),
        (
            ["resnet/timeline.sqlite", "resnet/metrics.csv"],
            ["resnet/timeline", "resnet/metrics"],
        ),
        ([_LONG.format("baseline"), _LONG.format("8workers")], ["…baseline…", "…8workers…"]),
        (["run.sqlite", "run.sqlite"], ["run 0aaa", "run 1aaa"]),
        ([".sqlite"], [".sqlite"]),
    ],
)
def test_a_name_is_that_of_the_file_or_capture(names: list[str], shown: list[str]) -> None:
    ids = [f"{number}aaaaaaaaaaa" for number in range(len(names))]
    assert list(run_names(dict(zip(ids, names, strict=True))).values()) == shown


@pytest.mark.slow
@example(["a.sqlite", "a.sqlite", "a aaaa.sqlite"])
@given(st.lists(st.text("ab/._", min_size=1, max_size=9), max_size=6))
def test_names_differ(names: list[str]) -> None:
    ids = [f"aaaa{number:08}" for number in range(len(names))]
    shown = run_names(dict(zip(ids, names, strict=True)))
    assert list(shown) == ids
    assert len(set(shown.values())) == len(names)
