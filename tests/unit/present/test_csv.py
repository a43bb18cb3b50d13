"""Texts of a trace control neither the terminal nor a spreadsheet."""

from __future__ import annotations

import csv
import shutil
import sqlite3
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from corpus import ROOT
from tbd_trace.cli import output
from tbd_trace.cli.main import app
from tbd_trace.present import Format
from tbd_trace.present import csv as as_csv
from tbd_trace.store import Database

SAMPLE = ROOT / "data" / "samples" / "synthetic_cnn" / "timeline.sqlite"
FIRST_ID = 900_000
FORMULAS = ["=HYPERLINK(1)", "+1", "-1+2", "@SUM(A1)", "\t=1", "\r=1"]
ESCAPE = "\x1b]0;title\x07\x9b2J"


@pytest.mark.slow
@given(st.lists(st.one_of(st.none(), st.sampled_from(FORMULAS), st.text())))
def test_no_text_is_a_formula(texts: list[str | None]) -> None:
    frame = pl.DataFrame({"name": pl.Series(texts, dtype=pl.String), "ns": [-1] * len(texts)})
    safe = as_csv.spreadsheet_safe(frame)
    assert safe["ns"].to_list() == frame["ns"].to_list()
    for before, after in zip(texts, safe["name"].to_list(), strict=True):
        assert after == (f"'{before}" if before and before[0] in "=+-@\t\r" else before)


def test_categories_are_texts() -> None:
    frame = pl.DataFrame({"kind": pl.Series(["=1", "x"], dtype=pl.Enum(["=1", "x"]))})
    assert as_csv.spreadsheet_safe(frame)["kind"].to_list() == ["'=1", "x"]


@pytest.mark.parametrize("form", [Format.CSV, Format.JSON, Format.MARKDOWN, Format.TABLE])
def test_a_terminal_gets_no_control_characters(
    form: Format, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[bytes] = []
    monkeypatch.setattr(output, "_to_stdout", written.append)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    output.emit(pl.DataFrame({"name": [ESCAPE, "é"]}), form)
    text = b"".join(written).decode()
    assert all(char.isprintable() or char == "\n" for char in text)
    assert "é" in text


def test_a_program_gets_the_text_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[bytes] = []
    monkeypatch.setattr(output, "_to_stdout", written.append)
    output.emit(pl.DataFrame({"name": [ESCAPE]}), Format.CSV)
    assert ESCAPE in b"".join(written).decode()


def test_messages_are_bounded(capsys: pytest.CaptureFixture[str]) -> None:
    output.failure("a" * 5000 + "; remove it")
    output.note("b" * 5000)
    error, note = capsys.readouterr().err.splitlines()
    assert len(error) < 2100
    assert error.startswith("error: aaa")
    assert error.endswith("; remove it")
    assert len(note) < 2100


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """Return a database whose kernels have formulas as names."""
    profile = Path(shutil.copyfile(SAMPLE, tmp_path / "run.sqlite"))
    kernels = "CUPTI_ACTIVITY_KIND_KERNEL"
    with sqlite3.connect(profile) as file:
        file.executemany("INSERT INTO StringIds VALUES (?, ?)", enumerate(FORMULAS, FIRST_ID))
        file.execute(f"UPDATE {kernels} SET demangledName = {FIRST_ID} + rowid % {len(FORMULAS)}")
    file.close()
    database = Database(tmp_path / "x.duckdb")
    database.ingest([profile])
    return database.path


@pytest.mark.slow
@pytest.mark.parametrize(
    "asked",
    [
        ["query", "kernel_summary"],
        ["query", "kernel_summary", "--limit", "9"],
        ["sql", "SELECT name FROM kernel"],
        ["export", "table", "kernel"],
    ],
    ids=" ".join,
)
def test_commands_write_for_spreadsheets(database: Path, asked: list[str], tmp_path: Path) -> None:
    target = tmp_path / "answer.csv"
    for option, marks in (([], ""), (["--excel-safe"], "'")):
        command = [*asked, "--db", str(database), "-o", str(target), *option]
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 0, result.output
        with target.open(newline="") as file:
            rows = list(csv.DictReader(file))
        names = {row.get("kernel_name") or row["name"] for row in rows}
        assert names == {f"{marks}{name}" for name in FORMULAS}


@pytest.mark.slow
@pytest.mark.parametrize("form", ["json", "parquet"])
def test_other_formats_need_no_quotes(database: Path, form: str, tmp_path: Path) -> None:
    for asked in (["query", "kernel_summary"], ["export", "table", "kernel"]):
        target = str(tmp_path / f"answer.{form}")
        result = CliRunner().invoke(
            app, [*asked, "--db", str(database), "-o", target, "--excel-safe"]
        )
        assert result.exit_code == 2
