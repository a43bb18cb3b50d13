"""A page is safe with hostile text, whole without a network, and carries its rows as CSV."""

from __future__ import annotations

import base64
import hashlib
import io
import re

import polars as pl
import pytest
from matplotlib.figure import Figure as Drawing

from html_page import Reader, csv_of
from tbd_trace.analysis.report.page import (
    Figure,
    Figures,
    Note,
    Page,
    Plot,
    Section,
    Table,
    render_page,
)
from tbd_trace.present.values import NULL

HOSTILE = "</td></script><script>alert(1)</script><img src=x onerror=alert(2)>&\"'"
FRAME = pl.DataFrame(
    {
        "trace_id": ["t1", "t1", "t1"],
        "kernel_name": ["gemm", HOSTILE, "copy, with a comma"],
        "total_ns": [2_500_000, 1_000_000, None],
        "kind": ["a", "a", "a"],
        "nothing": pl.Series([None, None, None], dtype=pl.Float64),
    }
)
UNITS = {"total_ns": "ns"}


def page_of(*blocks: object) -> Reader:
    section = Section("one", "One", "What?", blocks)  # type: ignore[arg-type]
    return Reader(render_page(Page("Title", "Subtitle", [section], {"t1": "run.sqlite"})))


def drawing(text: str) -> bytes:
    figure = Drawing()
    axes = figure.subplots()
    axes.plot([1, 2], [1, 2], "o-")
    axes.set_title(text)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg")
    return buffer.getvalue()


def test_hostile_text_is_text_everywhere() -> None:
    reader = page_of(
        Figures([Figure(HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE)], HOSTILE),
        Table(FRAME, UNITS, HOSTILE, caption=HOSTILE, docs={"kernel_name": HOSTILE}),
        Table(FRAME[1:2], UNITS, "one"),
        Plot(drawing(HOSTILE), HOSTILE, HOSTILE, FRAME, HOSTILE),
        Note(HOSTILE + " `" + HOSTILE + "`"),
    )
    assert len(reader.all("script")) == 1  # the page's own
    assert not reader.all("img")
    assert not [a for _, a in reader.elements if any(name.startswith("on") for name in a)]
    assert [name for name, text in reader.texts if text == HOSTILE].count("span") >= 5


def test_title_and_names_are_escaped() -> None:
    page = Page(HOSTILE, HOSTILE, [Section("s", HOSTILE, HOSTILE)], {})
    reader = Reader(render_page(page))
    assert len(reader.all("script")) == 1
    assert ("title", HOSTILE) in reader.texts or HOSTILE in reader.said()


def test_the_policy_names_the_only_script_and_no_address() -> None:
    page = render_page(Page("T", sections=[Section("s", "S", blocks=[Table(FRAME)])]))
    reader = Reader(page)
    policy = next(m["content"] or "" for m in reader.all("meta") if "http-equiv" in m)
    script = re.findall(rb"<script>(.*?)</script>", page, re.DOTALL)[0]
    digest = base64.b64encode(hashlib.sha256(script).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    addresses = [
        value
        for _, attributes in reader.elements
        for name, value in attributes.items()
        if name in {"href", "src", "action", "xlink:href"} and value
    ]
    assert [a for a in addresses if not a.startswith(("#", "data:"))] == []
    assert b"http://" not in page
    assert b"https://" not in page


def test_the_csv_is_the_whole_frame_whatever_is_shown() -> None:
    reader = page_of(Table(FRAME, UNITS, "kernel_summary by=kernel", limit=1))
    (content,) = csv_of(reader).values()
    assert pl.read_csv(io.StringIO(content), schema=FRAME.schema).equals(FRAME)
    (link,) = [link for link in reader.all("a") if link.get("download")]
    assert link["download"] == "kernel_summary-by-kernel.csv"
    assert "The first 1 of 3 rows." in reader.said()


def test_rows_that_are_shown_twice_are_carried_once() -> None:
    reader = page_of(
        Plot(drawing("a"), "a", "q", FRAME), Table(FRAME, {}, "q"), Table(FRAME.head(2), {}, "q")
    )
    assert len(csv_of(reader)) == 2
    ids = {attributes["id"] for _, attributes in reader.elements if attributes.get("id")}
    local = [a["href"] or "" for a in reader.all("a") if (a["href"] or "").startswith("#")]
    assert {link[1:] for link in local} <= ids


def test_a_large_csv_keeps_its_first_rows_and_says_so() -> None:
    frame = pl.DataFrame({"n": range(30_000), "text": ["x" * 50] * 30_000})
    reader = page_of(Table(frame, limit=10))
    (content,) = csv_of(reader).values()
    kept = pl.read_csv(io.StringIO(content))
    assert kept.equals(frame.head(kept.height))
    assert 5_000 < kept.height < 30_000
    assert f"(the first {kept.height:,} of 30,000 rows)" in reader.said()


def test_a_page_with_many_large_answers_stays_small() -> None:
    frames = [pl.DataFrame({"n": range(9_000), "text": [str(k) * 50] * 9_000}) for k in range(12)]
    blocks = [Table(frame, {}, f"query{k}", limit=10) for k, frame in enumerate(frames)]
    content = render_page(Page("T", sections=[Section("s", "S", blocks=blocks)]))
    assert len(content) < 3_000_000
    for name, text in csv_of(Reader(content)).items():
        kept = pl.read_csv(io.StringIO(text), schema=frames[0].schema)
        assert 100 < kept.height < 9_000
        assert kept.equals(
            frames[int(name.removeprefix("query").removesuffix(".csv"))].head(kept.height)
        )


def test_sizes_read_well_and_what_all_rows_share_is_said_once() -> None:
    reader = page_of(Table(FRAME, UNITS, "q"))
    headings = [text for tag, text in reader.texts if tag in {"th", "span"}]
    assert headings[:3] == ["kernel name", "total", "(ms)"]
    said = reader.said()
    assert "In every row: trace run.sqlite ; kind a ." in said
    assert "Not known: nothing." in said
    cells = [text for tag, text in reader.texts if tag == "td"]
    assert cells == ["2.500", "1.000", NULL]


def test_a_single_row_is_a_list_of_its_columns() -> None:
    reader = page_of(Table(FRAME.head(1), UNITS))
    assert [text for tag, text in reader.texts if tag == "dt"] == [
        *("trace", "kernel name", "total", "kind"),
    ]
    assert [text for tag, text in reader.texts if tag == "dd"] == [
        *("run.sqlite", "gemm", "2.500 ms", "a"),
    ]


def test_rows_as_records_leave_out_what_is_not_known() -> None:
    reader = page_of(Table(FRAME, UNITS, columns=["kernel_name", "total_ns"], records=True))
    assert [text for tag, text in reader.texts if tag == "dd"] == [
        *("gemm", "2.500 ms", HOSTILE, "1.000 ms", "copy, with a comma"),
    ]


def test_every_table_has_a_name_and_headings_with_a_scope() -> None:
    reader = page_of(Table(FRAME, UNITS, caption="Kernels"), Table(FRAME, UNITS))
    ids = {attributes.get("id") for _, attributes in reader.elements}
    assert {a["aria-labelledby"] for a in reader.all("table")} <= ids
    assert {a["scope"] for a in reader.all("th")} == {"col"}
    assert ("figcaption", "Kernels") in reader.texts


def test_a_very_long_name_is_cut_but_whole_in_the_csv() -> None:
    frame = pl.DataFrame({"kernel_name": ["k" * 50_000, "short"]})
    reader = page_of(Table(frame))
    assert max(len(text) for tag, text in reader.texts if tag == "span") <= 1000
    assert "k" * 50_000 in csv_of(reader)["rows.csv"]


def test_no_rows_are_said() -> None:
    assert "No rows." in page_of(Table(FRAME.clear(), UNITS)).said()


@pytest.mark.parametrize("text", ["open ` end", "a `b` c"])
def test_notes_show_code(text: str) -> None:
    reader = page_of(Note(text, "missing"))
    assert [a for a in reader.all("p") if a.get("class") == "missing"]
    assert bool([t for tag, t in reader.texts if tag == "code"]) == (text.count("`") == 2)


def test_ids_are_unique_although_drawings_are_alike() -> None:
    svg = drawing("twice")
    reader = page_of(Plot(svg, "first"), Plot(svg, "second"), Table(FRAME), Table(FRAME))
    ids = [attributes["id"] for _, attributes in reader.elements if attributes.get("id")]
    assert len(ids) == len(set(ids))
    used = re.findall(r"url\(#([^)]*)\)", str(reader.elements))
    used += [(a.get("href") or "#")[1:] for a in reader.all("use")]
    assert used
    assert set(used) <= set(ids)
    assert [a["aria-label"] for a in reader.all("svg")] == ["first", "second"]
    assert {a["role"] for a in reader.all("svg")} == {"img"}


def test_drawings_take_the_colours_of_the_page() -> None:
    styles = str(page_of(Plot(drawing("a"), "a")).elements)
    assert "currentcolor" in styles.lower()
    assert "#000000" not in styles


def test_the_same_page_is_the_same_file() -> None:
    page = Page("T", sections=[Section("s", "S", blocks=[Table(FRAME, UNITS, "q")])])
    assert render_page(page) == render_page(page)


def test_only_ids_that_are_used_are_kept() -> None:
    reader = page_of(Plot(drawing("a"), "a"))
    inside = [a["id"] for tag, a in reader.elements if tag in ("g", "path") and a.get("id")]
    assert set(inside) <= {(a.get("href") or "#")[1:] for a in reader.all("use")}


@pytest.mark.parametrize(
    ("name", "values", "heading", "cells"),
    [
        # Letters of a unit inside a word are not the unit.
        ("longest_ns", [4 * 10**9, 3 * 10**9], ["longest", "(s)"], ["4", "3"]),
        ("ns_per_step", [4 * 10**6, 3 * 10**6], ["per step", "(ms)"], ["4", "3"]),
        # One outlier: the unit of the others.
        ("wait_ns", [2 * 10**9, 3_000, 2_000], ["wait", "(µs)"], ["2,000,000", "3", "2"]),
        ("kernels", [4, 3], ["kernels"], ["4", "3"]),
    ],
)
def test_a_heading_names_the_unit(
    name: str, values: list[int], heading: list[str], cells: list[str]
) -> None:
    unit = "kernel" if name == "kernels" else "ns"
    reader = page_of(Table(pl.DataFrame({name: values}), {name: unit}))
    shown = [text.strip() for tag, text in reader.texts if tag in ("th", "span")]
    assert shown[: len(heading)] == heading
    assert [text for tag, text in reader.texts if tag == "td"] == cells


def test_scaled_bytes_have_a_unit() -> None:
    for size, shown in ((22 * 2**20, "22 MiB"), (22, "22")):
        reader = page_of(Table(pl.DataFrame({"bytes": [size], "rank": [0]}), {"bytes": "byte"}))
        assert [text for tag, text in reader.texts if tag == "dd"] == [shown, "0"]
