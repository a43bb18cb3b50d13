"""Answers about real traces as tables: nothing overflows, and different names look different."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

import all_answers
from fast import one_in
from real_traces import Traces
from tbd_trace.errors import CannotAnswerError
from tbd_trace.present import Format, Style, render
from tbd_trace.present.layout import cut, fit, is_name, measured
from tbd_trace.present.values import columns
from tbd_trace.query import Catalogue, Result

NAMES = (
    "nsys/MohanadOdema_DLProf__w_Relu__nsys_profile.sqlite",  # long names
    "nsys/NERSC_sc22-dl-tutorial__sample_nsys_profiles__4gpu_baseline.qdrep.exp2022.4.sqlite",
    "nsys/GindaChen_nsys-ai__tests__fixtures__mfu_2gpu_after.sqlite",
    "nvprof/josiahdavis_profiling-lm__net.sql",
    "ncu/chia7_ece408_project__analysis_file.raw.csv",
)
STYLES = {
    "pipe": Style(width=200, plain=True),
    "terminal": Style(width=100),
    "narrow terminal": Style(width=72),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", one_in(5, NAMES, then_one_in=4))
def test_no_line_is_too_wide(traces: Traces, name: str) -> None:
    answered = 0
    queries = [query.name for query in Catalogue().metrics()]
    for result in all_answers.answers(traces.database, queries, [traces.id(name)]).values():
        if not isinstance(result, Result):
            continue
        answered += 1
        query, frame = result.query, result.frame.head(200)
        units = {column: doc.unit for column, doc in query.columns.items()}
        for where, style in STYLES.items():
            assert style.width is not None
            text = render(frame, Format.TABLE, units=units, style=style).decode()
            widest = max(map(cell_len, text.splitlines()))
            assert widest <= style.width, (query.name, where)
    assert answered >= 4


@pytest.mark.parametrize("name", one_in(5, NAMES, then_one_in=4))
def test_names_that_are_cut_stay_different(traces: Traces, name: str) -> None:
    for query in ("kernel_summary", "nvtx_kernels"):
        try:
            frame = traces.ask(name, query)
        except CannotAnswerError:
            continue
        fitted = fit(measured([columns(frame)]), 200, cut_text=True) or ()
        for measure in fitted:
            if measure.is_cut and is_name(measure.name):
                short = cut(frame[measure.name], measure)
                assert len(set(short.values())) == frame[measure.name].n_unique()


def test_wide_is_whole(traces: Traces) -> None:
    frame = traces.ask(NAMES[1], "nvtx_kernels")
    text = render(frame, Format.TABLE, style=Style(plain=True)).decode()
    longest = max(frame["range_path"].drop_nulls(), key=len)
    assert len(longest) > 200
    assert longest in text
