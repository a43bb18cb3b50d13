"""Pages agree with the queries, the tables and the command line.

Rewrite the console blocks of the pages in SESSIONS with

    PYTHONPATH=tests:tests/helpers python tests/unit/tools/test_make_docs.py
"""

from __future__ import annotations

import json
import os
import re
import shlex
import tempfile
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import make_docs
from corpus import ROOT
from fast import one_in, slow
from tbd_trace.cli.main import app
from tbd_trace.model.canonical_tables import canonical_tables
from tbd_trace.query import Catalogue
from tbd_trace.query.catalogue import derive_relations
from terminal import on_terminal, without_escapes

COMMANDS = (
    *(
        "collect",
        "models",
        "ingest",
        "info",
        "query",
        "why",
        "whatif",
        "try",
        "fit",
        "hang",
        "check",
        "report",
        "summary",
    ),
    *("sql", "diff", "doctor", "mcp", "archive", "export", "env"),
)
SUBCOMMANDS = (
    *("archive create", "archive merge", "archive extract", "archive verify", "archive ls"),
    *("archive inspect", "export perfetto", "export table"),
    *("env create", "env list", "env remove"),
)


def test_pages_are_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert make_docs.main(["--check"]) == 0, capsys.readouterr().out


@pytest.mark.slow
def test_check_finds_what_is_stale_missing_or_left_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert make_docs.main(["--check"], tmp_path) == 1
    assert not list(tmp_path.iterdir())
    assert make_docs.main([], tmp_path) == 0
    assert make_docs.main(["--check"], tmp_path) == 0
    (tmp_path / "cli.md").write_text("old")
    (tmp_path / "queries" / "gone.md").write_text("a query that is no more")
    (tmp_path / "tables" / "gone.md").write_text("a topic that is no more")
    (tmp_path / "tables" / "memory.md").unlink()
    capsys.readouterr()
    assert make_docs.main(["--check"], tmp_path) == 1
    said = capsys.readouterr().out
    for page in ("cli.md", "queries/gone.md", "tables/gone.md", "tables/memory.md"):
        assert f"docs/reference/{page} is out of date" in said
    assert make_docs.main([], tmp_path) == 0
    assert make_docs.main(["--check"], tmp_path) == 0
    assert not (tmp_path / "queries" / "gone.md").exists()
    assert not (tmp_path / "tables" / "gone.md").exists()
    assert (tmp_path / "tables" / "memory.md").is_file()


@pytest.mark.parametrize("command", ["", *COMMANDS, *SUBCOMMANDS])
def test_every_command_and_option_is_documented(command: str) -> None:
    shown = CliRunner().invoke(app, [*command.split(), "--help"]).stdout
    options = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", shown.split("Options:")[1]))
    assert {"--help"} <= options
    page = (ROOT / "docs" / "reference" / "cli.md").read_text()
    heading = f"## tbd-trace {command}".rstrip()
    section = page.split(f"{heading}\n", 1)[1].split("\n## ", 1)[0]
    for option in options:
        assert re.search(rf"(?<![\w-]){option}(?![\w-])", section), option


def test_command_list_is_complete() -> None:
    shown = CliRunner().invoke(app, ["--help"]).stdout
    assert re.findall(r"^  ([a-z-]+)  ", shown.split("Commands:")[1], re.M) == list(COMMANDS)
    groups = dict.fromkeys(command.split()[0] for command in SUBCOMMANDS)
    found = []
    for group in groups:
        shown = CliRunner().invoke(app, [group, "--help"]).stdout
        below = re.findall(r"^  ([a-z-]+)  ", shown.split("Commands:")[1], re.M)
        found += [f"{group} {name}" for name in below]
    assert found == list(SUBCOMMANDS)


def test_every_query_has_a_page_that_names_its_columns_and_parameters() -> None:
    for query in Catalogue().metrics():
        page = (ROOT / "docs" / "reference" / "queries" / f"{query.name}.md").read_text()
        assert query.question in page
        for name in (*query.columns, *query.params):
            assert f"`{name}`" in page, f"{query.name}: {name}"


def test_every_table_and_column_is_documented() -> None:
    folder = ROOT / "docs" / "reference" / "tables"
    pages = [path.read_text() for path in folder.glob("*.md")]
    columns = {t.name: [c.name for c in t.columns] for t in canonical_tables().values()}
    columns |= {query.name: list(query.columns) for query in derive_relations()}
    for table, names in columns.items():
        (page,) = [page for page in pages if f"\n### {table}\n" in page]
        section = page.split(f"\n### {table}\n", 1)[1].split("\n### ", 1)[0]
        for name in names:
            assert f"`{name}`" in section, f"{table}.{name}"


SESSIONS = {  # columns of the terminal
    "README.md": 106,
    "docs/tutorial/data_parallel.md": 100,
    "docs/tutorial/first_steps.md": 100,
    "docs/how_to/gpu_busy.md": 100,
    "docs/how_to/gpu_idle.md": 100,
}
LINK = re.compile(r"\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)$", re.M)
PAGE = re.compile(r"\bdocs/[\w/.-]*\w")


def test_links_lead_to_files_and_headings() -> None:
    for document in [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *ROOT.glob("data/**/*.md"),
        *(ROOT / "docs").rglob("*.ipynb"),
    ]:
        text = re.sub(r"```.*?```", "", document.read_text(), flags=re.S)
        for match in LINK.finditer(text):
            target = match[1] or match[2]
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            file = (document.parent / path).resolve() if path else document
            assert file.exists(), f"{document.name}: {target}"
            if anchor and file.suffix == ".md":
                assert anchor in _anchors(file), f"{document.name}: {target}"


def test_anchors_are_those_of_headings(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A b-c\n\n```\n# comment\n```\n\n## `x_y` | z\n## [GPU](gpu.md)\n## A b-c\n")
    assert _anchors(page) == {"a-b-c", "x_y--z", "gpu", "a-b-c-1"}


def test_index_of_tables_lists_each_once() -> None:
    index = (ROOT / "docs" / "reference" / "tables" / "README.md").read_text()
    listed = re.findall(r"\[(\w+)\]\([a-z_]+\.md#(\w+)\)", index)
    assert all(shown == anchor for shown, anchor in listed)
    data = [path.stem for path in (ROOT / "data").glob("*.csv")]
    tables = [*canonical_tables(), *(query.name for query in derive_relations()), *data]
    assert sorted(shown for shown, _ in listed) == sorted(tables)


def test_index_lists_every_page() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    listed = set(re.findall(r"\]\((?!\.\.)([^)]+)\)", index))
    docs = ROOT / "docs"
    files = (*docs.rglob("*.md"), *docs.rglob("*.ipynb"))
    pages = {path.relative_to(docs).as_posix() for path in files}
    # These pages are listed in the indexes of their folders.
    folders = ("reference/queries/", "reference/tables/")
    pages = {page for page in pages if not page.startswith(folders)} - {"README.md"}
    assert pages | {f"{folder}README.md" for folder in folders} == listed


@pytest.mark.slow
def test_pages_that_the_code_names_exist() -> None:
    folders = ("pipeline", "collectors", "models", "queries", "tests", "tools", "benchmarks")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.*")]
    for file in files:
        installed = ".venvs" in file.parts  # tools that the benchmarks compare with
        if installed or file.suffix not in {".py", ".sql", ".md"} or file == Path(__file__):
            continue
        for line in file.read_text(encoding="utf-8").splitlines():
            for page in PAGE.findall(line) if "://" not in line else ():
                assert (ROOT / page).exists(), f"{file.name}: {page}"


def sessions(page: str, language: str) -> list[str]:
    """Return the fenced blocks of a page in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / page).read_text(), re.S | re.M)


def screen_of(command: str, columns: int) -> str:
    """Run a command of a console block and return its output on a terminal."""
    words = shlex.split(command)
    assert words[:2] == ["$", "tbd-trace"]
    code, screen = on_terminal(*words[2:], columns=columns, NO_COLOR="1", TERM="dumb")
    assert code == 0, screen
    return without_escapes(screen)


@pytest.fixture
def checkout(sample_cache: Path) -> Path:
    """Run where the README's reader does, without leaving anything there."""
    (sample_cache / "data").symlink_to(ROOT / "data")
    return sample_cache


@slow
@pytest.mark.parametrize(
    ("page", "columns"), one_in(len(SESSIONS), SESSIONS.items(), then_one_in=4)
)
def test_console_blocks_show_the_output_of_the_program(
    checkout: Path, page: str, columns: int
) -> None:
    blocks = sessions(page, "console")
    assert len(blocks) >= 2
    for block in blocks:
        command, shown = block.split("\n", 1)
        assert screen_of(command, columns) == shown, command


@pytest.mark.slow
def test_python_of_the_readme_runs(checkout: Path) -> None:
    (block,) = sessions("README.md", "python")
    names: dict[str, Any] = {}
    exec(block, names)
    assert {"trace_id", "layer_type", "share_pct"} <= set(names["layers"].columns)
    assert names["kernels"].item() == 326
    assert names["answer"].frame.height >= 1


@pytest.mark.slow
def test_query_of_the_guide_runs(checkout: Path) -> None:
    (block,) = sessions("docs/how_to/queries.md", "sql")
    Path("long_kernels.sql").write_text(block)
    arguments = ["query", "long_kernels.sql", "data/samples/synthetic_cnn/timeline.sqlite"]
    options = ["--set", "at_least_us=425", "--plot", "long.svg", "--format", "json"]
    result = CliRunner().invoke(app, [*arguments, *options])
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    # data/samples/README.md: base * (1.5 + 1.25 + 10) / 12; im2col only once, base * 1.5
    assert [(row["phase"], row["mean_ns"]) for row in rows] == [
        ("forward", 900_000),
        ("backward", 510_000),
        ("backward", 467_500),
        ("forward", 425_000),
    ]
    assert Path("long.svg").is_file()


@cache
def _anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives the headings of a page."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", text, re.M):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", shown).replace(" ", "-")
        again = (f"{anchor}-{number}" for number in count(1))
        found.add(anchor if anchor not in found else next(a for a in again if a not in found))
    return found


def _renew_sessions() -> None:
    os.environ.pop("TBD_TRACE_DB", None)
    for page, columns in SESSIONS.items():
        text = (ROOT / page).read_text()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            os.environ["TBD_TRACE_CACHE"] = str(Path(folder) / "cache")
            Path("data").symlink_to(ROOT / "data")
            for block in sessions(page, "console"):
                command = block.split("\n", 1)[0]
                text = text.replace(block, f"{command}\n{screen_of(command, columns)}", 1)
            os.chdir(ROOT)
        (ROOT / page).write_text(text)


if __name__ == "__main__":
    _renew_sessions()
