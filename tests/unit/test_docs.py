"""The reference pages are what the queries, the tables and the command line say."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from typer.testing import CliRunner

from conftest import ROOT
from tbd_trace.cli.main import app
from tbd_trace.query import Catalogue
from tbd_trace.query.catalogue import derive_relations
from tbd_trace.schema import canonical_tables

COMMANDS = ("ingest", "info", "query", "sql", "doctor")


@pytest.fixture(scope="module")
def make_docs() -> ModuleType:
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import make_docs
    finally:
        sys.path.remove(str(ROOT / "tools"))
    return make_docs


def test_pages_are_up_to_date(make_docs: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert make_docs.main(["--check"]) == 0, capsys.readouterr().out


def test_check_finds_what_is_stale_missing_or_left_over(
    make_docs: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert make_docs.main(["--check"], tmp_path) == 1
    assert not list(tmp_path.iterdir())
    assert make_docs.main([], tmp_path) == 0
    assert make_docs.main(["--check"], tmp_path) == 0
    (tmp_path / "cli.md").write_text("old")
    (tmp_path / "queries" / "gone.md").write_text("a query that is no more")
    (tmp_path / "tables.md").unlink()
    capsys.readouterr()
    assert make_docs.main(["--check"], tmp_path) == 1
    said = capsys.readouterr().out
    for page in ("docs/cli.md", "docs/queries/gone.md", "docs/tables.md"):
        assert f"{page} is out of date" in said
    assert make_docs.main([], tmp_path) == 0
    assert make_docs.main(["--check"], tmp_path) == 0
    assert not (tmp_path / "queries" / "gone.md").exists()


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_every_command_and_option_is_documented(command: str) -> None:
    arguments = [command, "--help"] if command else ["--help"]
    shown = CliRunner().invoke(app, arguments).stdout
    options = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", shown.split("Options:")[1]))
    assert {"--help"} <= options
    page = (ROOT / "docs" / "cli.md").read_text()
    heading = f"## tbd-trace {command}".rstrip()
    section = page.split(f"{heading}\n", 1)[1].split("\n## ", 1)[0]
    for option in options:
        assert re.search(rf"(?<![\w-]){option}(?![\w-])", section), option


def test_command_list_is_complete() -> None:
    shown = CliRunner().invoke(app, ["--help"]).stdout
    assert re.findall(r"^  ([a-z-]+)  ", shown.split("Commands:")[1], re.M) == list(COMMANDS)


def test_every_query_has_a_page_that_names_its_columns_and_parameters() -> None:
    for query in Catalogue().metrics():
        page = (ROOT / "docs" / "queries" / f"{query.name}.md").read_text()
        assert query.question in page
        for name in (*query.columns, *query.params):
            assert f"`{name}`" in page, f"{query.name}: {name}"


def test_every_table_and_column_is_documented() -> None:
    page = (ROOT / "docs" / "tables.md").read_text()
    columns = {t.name: [c.name for c in t.columns] for t in canonical_tables().values()}
    columns |= {query.name: list(query.columns) for query in derive_relations()}
    for table, names in columns.items():
        section = page.split(f"\n### {table}\n", 1)[1].split("\n### ", 1)[0]
        for name in names:
            assert f"`{name}`" in section, f"{table}.{name}"


def test_links_of_the_documents_lead_somewhere() -> None:
    for document in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        text = re.sub(r"```.*?```", "", document.read_text(), flags=re.S)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            file = (document.parent / path).resolve() if path else document
            assert file.exists(), f"{document.name}: {target}"
            if anchor and file.suffix == ".md":
                headings = re.findall(r"^#+ (.+)$", file.read_text(), re.M)
                assert anchor in {_anchor(heading) for heading in headings}, target


def _anchor(heading: str) -> str:
    """Return the anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
