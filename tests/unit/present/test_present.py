"""Rows as tables, CSV, JSON, Markdown and Parquet."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import time
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from rich.cells import cell_len

from tbd_trace.errors import TbdTraceError, UsageError
from tbd_trace.present import (
    JOINABLE,
    Format,
    Style,
    format_of,
    joined,
    parts,
    printable,
    render,
    table,
    write,
)
from tbd_trace.present import csv as csv_form
from tbd_trace.present.names import shorten, shortened
from tbd_trace.present.scaling import in_fitting_units
from tbd_trace.present.values import NULL, columns, plain, text, width_of, with_unit

KERNEL = (
    "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_256x128_16x4_nn_align4>"
    "(cutlass_80_tensorop_s1688gemm_256x128_16x4_nn_align4::Params)"
)


@pytest.fixture
def frame() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "kernel_name": [KERNEL, "copy[2] | a*b", None],
            "calls": [12, 1_234_567, None],
            "correlation_id": [1000, 2000, 3000],
            "util_pct": [12.3456, 0.0123, None],
            "evidence": ["counter", "modelled", None],
            "tables": [["kernel", "memcpy"], [], None],
        }
    )


def as_text(frame: pl.DataFrame, form: Format = Format.TABLE, **style: object) -> str:
    return render(frame, form, style=Style(**style)).decode()  # type: ignore[arg-type]


def test_plain_table_is_whole_aligned_and_unboxed(frame: pl.DataFrame) -> None:
    lines = as_text(frame).splitlines()
    assert len(lines) == 4
    assert all(KERNEL in line for line in lines[1:2])
    assert not re.search("[─│┃━…]", "\n".join(lines))
    end = lines[0].index("calls") + len("calls")
    assert [line[:end].split("  ")[-1].strip() for line in lines[1:]] == ["12", "1,234,567", NULL]
    assert lines[1].rstrip() == lines[1]
    assert re.search(r"\b12 +1000 +12\.35  counter", lines[1])
    assert re.search(r"1,234,567 +2000 +0\.01  modelled", lines[2])
    assert lines[3].count(NULL) == 5


@pytest.mark.parametrize("form", [Format.TABLE, Format.CSV])
def test_parts_follow_each_other_as_if_written_at_once(
    frame: pl.DataFrame, monkeypatch: pytest.MonkeyPatch, form: Format
) -> None:
    module = {Format.TABLE: table, Format.CSV: csv_form}[form]
    assert len(list(parts(frame, form))) == 2  # the header, all rows
    whole = as_text(frame, form)
    assert whole.count("\n") == frame.height + 1
    for rows in range(1, frame.height + 2):
        monkeypatch.setattr(module, "_ROWS_AT_ONCE", rows)
        assert len(list(parts(frame, form))) == 1 + math.ceil(frame.height / rows)
        assert as_text(frame, form) == whole


def test_a_table_without_columns_is_empty() -> None:
    assert render(pl.DataFrame(), Format.TABLE) == b""


def test_a_file_is_written_from_parts(tmp_path: Path) -> None:
    path = tmp_path / "rows.txt"

    def failing() -> Iterator[bytes]:
        yield b"half"
        raise KeyboardInterrupt

    write(path, iter([b"a", b"", b"b"]))
    assert path.read_bytes() == b"ab"
    with pytest.raises(KeyboardInterrupt):
        write(path, failing())
    assert path.read_bytes() == b"ab"
    assert list(tmp_path.iterdir()) == [path]


def test_terminal_table_fits_and_shortens_kernel_names(frame: pl.DataFrame) -> None:
    shown = as_text(pl.concat([frame] * 2), width=100)
    assert "─" in shown
    assert max(map(cell_len, shown.splitlines())) <= 100
    assert "s1688gemm_256x128_16x4" in shown
    assert "void" not in shown
    for whole in ("1,234,567", "12.35", "counter", "modelled", "kernel, memcpy"):
        assert whole in shown


@pytest.mark.parametrize("name", ["layer", "share_pct", "verdict"])
def test_names_shares_and_answers_are_left_out_last(name: str) -> None:
    columns = ("call", "total_x", "other_x", "sum_x", name)
    made = pl.DataFrame({column: ["x" * 30, "y" * 30] for column in columns})
    shown = as_text(made, width=64, plain=True)
    assert shown.endswith("Left out in 64 columns: sum_x; --wide shows all.\n")


def test_terminal_too_narrow_for_the_numbers_gets_one_field_per_line(frame: pl.DataFrame) -> None:
    shown = as_text(pl.concat([frame] * 2), width=40)
    assert max(map(cell_len, shown.splitlines())) <= 40
    assert re.search(r"^calls +1,234,567$", shown, re.M)
    assert len(shown.strip().split("\n\n")) == 6


def test_columns_of_least_importance_are_left_out_and_named(frame: pl.DataFrame) -> None:
    shown = as_text(frame.head(2), width=80)
    assert max(map(cell_len, shown.splitlines())) <= 80
    assert shown.endswith("Left out in 80 columns: correlation_id; --wide shows all.\n")
    assert re.search(r"^\S*s1688gemm_256x128_16x4\S* +12 +12.35  counter", shown, re.M)
    names = [
        "kernel_name",
        *(f"{word}_x" for word in ("min", "total", "p95", "other")),
        "share_pct",
    ]
    many = pl.DataFrame({name: [f"{name} of a row {n}" * 2 for n in (1, 2)] for name in names})
    narrow = as_text(many, width=80, plain=True)
    assert narrow.endswith("Left out in 80 columns: p95_x, min_x; --wide shows all.\n")
    assert narrow.split("\n")[0].split() == ["kernel_name", "total_x", "other_x", "share_pct"]


@pytest.mark.parametrize("answer", ["bound", "cause", "verdict", "evidence"])
def test_the_column_of_the_answer_stays(answer: str) -> None:
    columns = {f"number_{n}": [10.0**9 + n, 2.0 * 10**9 + n] for n in range(8)}
    rows = pl.DataFrame({"kernel_name": ["first", "second"], **columns, answer: ["memory", "no"]})
    header = as_text(rows, width=80, plain=True).split("\n")[0].split()
    assert header[0] == "kernel_name"
    assert header[-1] == answer
    assert "number_0" in header


def test_rows_are_compared_side_by_side_below_80_columns(frame: pl.DataFrame) -> None:
    three = as_text(frame, width=55)
    assert re.search(r"^calls +12 +1,234,567$", three, re.M)
    assert re.search(rf"^calls +{NULL}$", three, re.M)


def test_what_rows_share_goes_above_a_table_that_is_too_wide() -> None:
    frame = pl.DataFrame(
        {
            "trace_id": ["1c079a00335c"] * 5,
            "layer": ["conv1", "conv2", "conv3", "conv4", "fc"],
            "busy_ns": [1_500_000] * 5,
            "reason": pl.Series([None] * 5, dtype=pl.String),
            "share_pct": [75.25, 20.0, 2.0, 1.0, 1.75],
            "evidence": ["nvtx"] * 5,
        }
    )
    units = {"busy_ns": "ns"}
    wide = render(frame, Format.TABLE, units=units, style=Style(width=100)).decode()
    assert wide.count("1c079a00335c") == 5
    narrow = render(frame, Format.TABLE, units=units, style=Style(width=44)).decode()
    above, table = narrow.split("\n\n")
    assert " ".join(above.split()) == (
        f"trace_id: 1c079a00335c; busy_ms: 1.500; evidence: nvtx; {NULL} in every row: reason"
    )
    assert [line.split() for line in table.splitlines()[-2:]] == [
        ["conv4", "1.00"],
        ["fc", "1.75"],
    ]
    assert max(map(cell_len, narrow.splitlines())) <= 44


def test_time_grows_with_rows_not_with_their_square() -> None:
    rows = 20_000
    frame = pl.DataFrame({"name": [f"kernel<{n}>" for n in range(rows)], "n": range(rows)})
    start = time.perf_counter()
    assert as_text(frame).count("\n") == rows + 1
    assert time.perf_counter() - start < 10  # about 0.1 s; minutes if every cell looked at all


def test_a_pipe_gets_one_line_per_row_in_200_columns() -> None:
    long = "/directory" * 70
    frame = pl.DataFrame(
        {
            "path": [f"{long}/{n}" for n in range(9)],
            "reason": ["because " * 50 + str(n) for n in range(9)],
            "total_ns": range(9),
        }
    )
    fitted = as_text(frame, width=200, plain=True)
    assert fitted.count("\n") == 10
    assert max(map(len, fitted.splitlines())) == 200
    assert len(set(re.findall(r"/directory\S*…\S*/\d", fitted))) == 9
    whole = as_text(frame, plain=True)
    assert all(name in whole for name in frame["path"])


def test_columns_that_no_pipe_can_hold_go_above_or_are_left_out() -> None:
    numbers = {f"a_long_name_of_a_number_{n}": [n, n + 1, n + 2] for n in range(9)}
    same = pl.DataFrame({f"what_all_rows_share_{n}": ["x"] * 3 for n in range(9)})
    few = pl.DataFrame(numbers).select(pl.nth(range(4)))
    shown = as_text(pl.concat([same, few], how="horizontal"), width=200, plain=True)
    head, rows = shown.split("\n\n")
    assert "what_all_rows_share_8: x" in " ".join(head.split())
    assert len(rows.splitlines()) == 4
    lines = as_text(pl.DataFrame(numbers), width=200, plain=True).splitlines()
    assert lines[-1] == (
        "Left out in 200 columns: a_long_name_of_a_number_8, a_long_name_of_a_number_7; "
        "--wide shows all."
    )
    assert max(map(len, [*lines, *shown.splitlines()])) <= 200


def test_a_long_name_that_rows_share_takes_a_line_above_them() -> None:
    numbers = {f"number_{n}": [n, n + 1] for n in range(3)}
    frame = pl.DataFrame({"kernel_name": [KERNEL * 30] * 2, **numbers})
    frame = pl.concat([frame] * 2)
    shown = as_text(frame, width=40)
    above = shown.split("\n\n")[0]
    assert above.count("\n") <= 2
    assert "s1688gemm_256x128" in above


def test_a_field_that_is_too_long_goes_on_below() -> None:
    words = [f"word{number}" for number in range(60)]
    row = pl.DataFrame({"note": [" ".join(words)], "kernel_name": [KERNEL * 9], "n": [1]})
    for plain_style in (False, True):
        shown = as_text(row, width=80, plain=plain_style)
        assert max(map(cell_len, shown.splitlines())) <= 80
        assert re.findall(r"word\d+", shown) == words
        assert re.search(r"^kernel_name  cutlass_80_\S+_align4$", shown, re.M)


def test_long_prose_on_a_terminal_is_wrapped_not_cut() -> None:
    words = [f"word{number}" for number in range(40)]
    prose = pl.DataFrame({"check": ["a", "b"], "advice": [" ".join(words), ""]})
    shown = as_text(prose, width=60)
    assert re.findall(r"word\d+", shown) == words


def test_times_and_sizes_are_in_fitting_units_that_the_header_names() -> None:
    frame = pl.DataFrame(
        {
            "total_ns": [6_120_000, 900_000, None],
            "wait_ns": [3 * 10**9, 1_000, 2_000],  # one outlier: the unit of the others
            "zero_ns": [0, 0, None],
            "live_bytes": [3 * 2**20, 2**19, 2**20],
            "correlation_id": [1_000_000, 2, 3],
            "total_ms": [1.0, 2.0, 3.0],
        }
    )
    units = {"total_ns": "ns", "wait_ns": "ns", "zero_ns": "ns", "live_bytes": "byte"}
    shown, _ = in_fitting_units(frame, units)
    assert shown.columns == [
        "total_ns",
        "wait_µs",
        "zero_ns",
        "live_MiB",
        "correlation_id",
        "total_ms",
    ]
    assert shown["wait_µs"].to_list() == [3e6, 1.0, 2.0]
    assert shown["live_MiB"].to_list() == [3.0, 0.5, 1.0]
    text = render(frame.drop("total_ms"), Format.TABLE, units=units, style=Style()).decode()
    assert [line.split()[0] for line in text.splitlines()] == ["total_ms", "6.120", "0.900", NULL]
    assert render(frame, Format.CSV, units=units).startswith(b"total_ns,wait_ns,")


def test_a_time_per_step_is_named_by_its_unit() -> None:
    shown, _ = in_fitting_units(pl.DataFrame({"ns_per_step": [2e6, 3e6]}), {"ns_per_step": "ns"})
    assert shown.to_dict(as_series=False) == {"ms_per_step": [2.0, 3.0]}


def test_one_row_is_shown_as_fields_with_units() -> None:
    row = pl.DataFrame({"fp32_util_pct": [41.5], "busy_ns": [1_234_567_890], "evidence": ["x"]})
    units = {"fp32_util_pct": "%", "busy_ns": "ns"}
    shown = render(row, Format.TABLE, units=units).decode()
    assert shown.splitlines() == [
        "fp32_util_pct  41.50 %",
        "busy_ns        1,234,567,890 ns (1.235 s)",
        "evidence       x",
    ]


def test_no_rows_leave_the_header() -> None:
    empty = pl.DataFrame(schema={"a": pl.Int64, "b": pl.String})
    assert as_text(empty) == "a  b\n"
    assert as_text(empty, width=80) == "a  b\n"
    assert as_text(empty, Format.CSV) == "a,b\n"
    assert as_text(empty, Format.JSON) == "[]\n"


def test_records_style_applies_to_many_rows() -> None:
    rows = pl.DataFrame({"a": [1, 2], "note": ["x", "y"]})
    assert as_text(rows, records=True) == "a     1\nnote  x\n\na     2\nnote  y\n"


def test_colour_only_when_asked(frame: pl.DataFrame) -> None:
    numbers = frame.select("calls", "util_pct")
    assert "\x1b[" in as_text(numbers, width=120, colour=True)
    assert "\x1b[" not in as_text(numbers, width=120)


@pytest.mark.parametrize(
    ("numbers", "cells"),
    [
        ([1.0, 2.0], ["1", "2"]),
        ([0.5, 1.0], ["0.500", "1.000"]),
        ([12345.6, 0.0123], ["12,346", "0.0123"]),
        ([20.5, 1e6], ["20.50", "1,000,000"]),
        ([3e-5, 0.51234, 0.00123456], ["0.00003", "0.5123", "0.001235"]),
        ([123456.7], ["123,457"]),
        ([99.95, None], ["99.95", NULL]),
        ([5.0, 4.1e-7], ["5.000", "4.1e-07"]),
        ([math.nan, math.inf, 1.5], ["nan", "inf", "1.500"]),
        ([3.12e15], ["3.12e+15"]),
        ([-0.25, 0.0], ["-0.250", "0"]),
    ],
)
def test_numbers_keep_the_digits_that_matter(numbers: list[float | None], cells: list[str]) -> None:
    assert columns(pl.DataFrame({"x": pl.Series(numbers, dtype=pl.Float64)}))[0].cells == cells


def test_percentages_are_not_in_powers_of_ten() -> None:
    shares = pl.DataFrame({"share_pct": [3e-5, 2.4e-13, -2.4e-13, 50.0]})
    assert columns(shares)[0].cells == ["<0.01", "<0.01", "-<0.01", "50.00"]


@pytest.mark.slow
@given(
    st.lists(st.floats(-1e14, 1e14, allow_nan=False), min_size=1, max_size=6).filter(
        lambda numbers: any(number != int(number) for number in numbers)
    )
)
def test_each_number_is_shown_to_four_digits_whatever_stands_beside_it(
    numbers: list[float],
) -> None:
    cells = columns(pl.DataFrame({"x": numbers}))[0].cells
    for number, cell in zip(numbers, cells, strict=True):
        tolerance = 0.0005 if abs(number) >= 1e-6 else 0.05
        assert float(cell.replace(",", "")) == pytest.approx(number, rel=tolerance, abs=1e-320)


def test_decimal_points_stand_below_each_other() -> None:
    frame = pl.DataFrame({"rate": [20.5, 1e6, 0.0123, None, math.inf], "n": ["a"] * 5})
    for style in ({}, {"width": 100, "plain": True}, {"width": 100}):
        shown = [line.rstrip() for line in as_text(frame, **style).splitlines()]
        rows = [line.removesuffix("a").rstrip() for line in shown if line.endswith("a")]
        assert [row.strip() for row in rows] == ["20.50", "1,000,000", "0.0123", NULL, "inf"]
        assert rows[0].index(".") == rows[2].index(".") == len(rows[1])
        assert len(rows[2]) == len(rows[3]) == len(rows[4])


def test_huge_integers_and_decimals_are_numbers() -> None:
    frame = pl.DataFrame(
        {
            "sum": pl.Series([2**70, None], dtype=pl.Int128),
            "cost": pl.Series([Decimal("12.5"), None], dtype=pl.Decimal(10, 2)),
        }
    )
    shown = {column.name: column for column in columns(frame)}
    assert shown["sum"].cells == ["1,180,591,620,717,411,303,424", NULL]
    assert shown["cost"].cells == ["12.50", NULL]
    assert all(column.numeric for column in shown.values())
    assert json.loads(as_text(frame, Format.JSON))[0] == {"sum": 2**70, "cost": 12.5}


def test_text_of_a_trace_cannot_drive_the_terminal() -> None:
    hostile = pl.DataFrame({"name": ["\x1b[31mred\a\nnext", "[bold]x[/bold]"], "n": [1, 2]})
    for shown in (as_text(hostile), as_text(hostile, width=80), as_text(hostile, Format.MARKDOWN)):
        assert not any(not c.isprintable() for c in shown.replace("\n", ""))
    assert "[bold]x[/bold]" in as_text(hostile, width=80)


def test_printable_keeps_text_and_disarms_the_rest() -> None:
    assert printable("grüße ≤ 核 <a b>") == "grüße ≤ 核 <a b>"
    assert printable("a\x1b[2Jb\tc\u202e") == "a\\x1b[2Jb\\tc\\u202e"


def test_csv_is_raw(frame: pl.DataFrame) -> None:
    rows = list(csv.DictReader(io.StringIO(as_text(frame, Format.CSV))))
    assert [row["calls"] for row in rows] == ["12", "1234567", ""]
    assert [row["util_pct"] for row in rows] == ["12.3456", "0.0123", ""]
    assert rows[0]["kernel_name"] == KERNEL
    assert [row["tables"] for row in rows] == ['["kernel", "memcpy"]', "[]", ""]


def test_json_is_raw_and_strict() -> None:
    frame = pl.DataFrame(
        {
            "x": [1.5, math.nan, math.inf],
            "when": [datetime(2024, 1, 2, 3, 4, 5), None, None],
            "names": [["a"], None, []],
            "pair": [{"a": 1, "b": math.nan}, None, None],
        }
    )

    def refuse(word: str) -> None:
        raise AssertionError(word)

    rows = json.loads(as_text(frame, Format.JSON), parse_constant=refuse)
    assert [row["x"] for row in rows] == [1.5, None, None]
    assert rows[0]["when"] == "2024-01-02T03:04:05"
    assert [row["names"] for row in rows] == [["a"], None, []]
    assert rows[0]["pair"] == {"a": 1, "b": None}


def test_markdown_table(frame: pl.DataFrame) -> None:
    lines = as_text(frame, Format.MARKDOWN).splitlines()
    assert lines[1] == "| --- | ---: | ---: | ---: | --- | --- |"
    cells = [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines]
    assert all(len(row) == len(frame.columns) for row in cells)
    assert cells[3][0].strip() == r"copy\[2\] \| a\*b"


def test_parquet_keeps_types_and_rows(frame: pl.DataFrame) -> None:
    content = render(frame, Format.PARQUET)
    assert pl.read_parquet(io.BytesIO(content)).equals(frame)


@pytest.mark.parametrize("form", sorted(JOINABLE))
@pytest.mark.parametrize("rows_each", [0, 1, 2, 5])
def test_frames_that_follow_each_other_are_one_answer(
    frame: pl.DataFrame, form: Format, rows_each: int
) -> None:
    slices = list(frame.iter_slices(rows_each)) if rows_each else []
    cut = [frame.clear(), *slices, frame.clear()]
    parts = b"".join(joined(cut, form))
    expected = frame if rows_each else frame.clear()
    if form is Format.PARQUET:
        assert pl.read_parquet(io.BytesIO(parts)).equals(expected)
    else:
        assert parts == render(expected, form)


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(
            st.integers(-(2**63), 2**63 - 1) | st.none(),
            st.floats(allow_nan=False, allow_infinity=False) | st.none(),
            st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=20)
            | st.none(),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_machine_forms_lose_nothing(rows: list[tuple[object, ...]]) -> None:
    schema = {"i": pl.Int64, "f": pl.Float64, "s": pl.String}
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    assert json.loads(as_text(frame, Format.JSON)) == frame.to_dicts()
    read = csv.DictReader(io.StringIO(as_text(frame, Format.CSV), newline=""))
    for fields, row in zip(read, frame.iter_rows(named=True), strict=True):
        assert fields["i"] == ("" if row["i"] is None else str(row["i"]))
        assert (float(fields["f"]) if fields["f"] else None) == row["f"]
        assert fields["s"] == (row["s"] or "")


@pytest.mark.slow
@given(
    st.lists(st.text(max_size=60), min_size=2, max_size=5),
    st.integers(20, 120),
)
@example(["\x1f\x1f\x1f⺀\U0001342f\U00018cd6"] * 3, 33)  # wide characters above the table
def test_no_line_is_wider_than_the_terminal(names: list[str], width: int) -> None:
    frame = pl.DataFrame({"kernel_name": names, "total_ns": [10**9 + n for n in range(len(names))]})
    assert max(map(cell_len, as_text(frame, width=width).splitlines())) <= max(width, 33)


@example("tab\tin a column's name")
@given(st.text() | st.text(st.characters(codec="ascii")))
def test_a_width_is_that_of_a_terminal(text: str) -> None:
    assert width_of(text) == cell_len(text)


@given(st.text(), st.integers(1, 80))
def test_shorten_keeps_both_ends(name: str, width: int) -> None:
    assume("…" not in name)
    short = shorten(name, width)
    assert cell_len(short) <= width
    if cell_len(name) <= width:
        assert short == name
    else:
        front, back = short.split("…")
        assert name.startswith(front)
        assert name.endswith(back)


@given(
    st.sets(st.text(st.sampled_from("ab…#1核"), max_size=30), min_size=1, max_size=40),
    st.integers(8, 20),
)
@example({f"{'a' * 20}{n}{'b' * 20}" for n in range(40)}, 12)
@example({"aaaa…aaa", "aaaaaaaaaaaaaaaaaaaaa"}, 8)
def test_shortened_names_fit_and_differ(names: set[str], width: int) -> None:
    short = shortened(sorted(names), width)
    assert set(short) == names
    assert len(set(short.values())) == len(names)
    assert all(cell_len(text) <= width for text in short.values())
    assert all(short[name] == name for name in names if cell_len(name) <= width)


def test_names_that_differ_in_the_middle_are_distinguished() -> None:
    names = [f"void at::elementwise_kernel<{n}, float, lots, of, arguments>(int)" for n in (2, 4)]
    for width in (16, 24, 40):
        assert len(set(shortened(names, width).values())) == 2
    assert shortened([*names, "short"], 200) == {name: name for name in (*names, "short")}


def test_shorten_uses_the_room() -> None:
    assert shorten(KERNEL, 21) == KERNEL[:13] + "…" + KERNEL[-7:]
    assert shorten("abc", 1) == "…"


@given(st.text())
def test_text_is_one_printable_line(name: str) -> None:
    assert text(name).isprintable()
    assert text(name) == name or not name.isprintable()


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (2.5e13, "FLOP/s", "c FLOP/s (25 TFLOP/s)"),
        (1536, "byte", "c byte (1.5 KiB)"),
        (1536, "bytes", "c bytes (1.5 KiB)"),
        (999, "ns", "c ns"),
        (-2_000_000, "ns", "c ns (-2 ms)"),
        (42.0, "%", "c %"),
        (None, "ns", "c"),
        ("x", "ns", "c"),
        (1.0, None, "c"),
    ],
)
def test_units(value: object, unit: str | None, shown: str) -> None:
    assert with_unit("c", value, unit) == shown


def test_plain_values() -> None:
    assert plain([Decimal("3"), Decimal("2.5"), b"\x01\xff", {"a": (1, None)}]) == [
        3,
        2.5,
        "01ff",
        {"a": [1, None]},
    ]


def test_format_of_extension() -> None:
    assert format_of(Path("a/b.CSV")) is Format.CSV
    assert format_of(Path("x.md")) is Format.MARKDOWN
    with pytest.raises(UsageError, match=r"\.parquet.*--format"):
        format_of(Path("x.xlsx"))


def test_write_replaces_whole_and_leaves_nothing_beside(tmp_path: Path) -> None:
    target = tmp_path / "out.csv"
    target.write_text("old")
    write(target, b"new")
    assert target.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [target]


def test_write_failure_is_one_line_and_keeps_the_old_file(tmp_path: Path) -> None:
    missing = tmp_path / "nowhere" / "out.csv"
    with pytest.raises(TbdTraceError, match="cannot be written"):
        write(missing, b"x")
    directory = tmp_path / "out.csv"
    directory.mkdir()
    with pytest.raises(TbdTraceError, match="cannot be written"):
        write(directory, b"x")
    assert list(tmp_path.iterdir()) == [directory]
