"""Generate the pages of docs/reference from the queries, tables, models and commands.

queries/   one page per metric query and an index, from the headers of queries/metrics
tables/    one page per topic of tables and an index, from queries/canonical, queries/derive, data
checks.md  the rules of `tbd-trace check`, from the headers of queries/checks
models.md  the workloads, from their definitions and models/suite_differences.csv
cli.md     commands and options, from the command line
api.md     the Python API, from its docstrings

The modules of tools/reference_pages render the pages.

Usage: python tools/make_docs.py [--check]

With --check no page is written; the exit code is 1 if a page is out of date.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from reference_pages.api import api_page
from reference_pages.checks import checks_page
from reference_pages.command_line import cli_page
from reference_pages.models import models_page
from reference_pages.queries import query_index, query_page
from reference_pages.tables import table_pages
from tbd_trace.query import Catalogue

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("queries", "tables")  # all their pages are generated
_GENERATED = "<!-- Written by tools/make_docs.py; `make docs` renews it. -->"


def pages() -> dict[Path, str]:
    """Return the text of each generated page by its path below docs/reference."""
    metrics = Catalogue().metrics()
    generated = {Path("queries") / f"{query.name}.md": query_page(query) for query in metrics}
    generated[Path("queries/README.md")] = query_index(metrics)
    generated[Path("checks.md")] = checks_page(Catalogue().checks())
    generated |= {Path("tables") / name: text for name, text in table_pages().items()}
    generated[Path("models.md")] = models_page()
    generated[Path("cli.md")] = cli_page()
    generated[Path("api.md")] = api_page()
    return {path: f"{_GENERATED}\n{text}" for path, text in generated.items()}


def out_of_date(reference: Path, wanted: dict[Path, str]) -> list[Path]:
    """Return the pages below docs/reference that differ from the generated ones or are obsolete."""
    files = [path for folder in FOLDERS for path in (reference / folder).glob("*.md")]
    present = {path.relative_to(reference) for path in files}
    stale = sorted(present - wanted.keys())
    for path, text in wanted.items():
        file = reference / path
        if not file.is_file() or file.read_text(encoding="utf-8") != text:
            stale.append(path)
    return stale


def main(arguments: Sequence[str] | None = None, reference: Path = ROOT / "docs/reference") -> int:
    """Write or check the pages and return the exit code."""
    parser = argparse.ArgumentParser(description="Write the generated pages of docs/reference.")
    parser.add_argument("--check", action="store_true", help="only list pages that are out of date")
    check = parser.parse_args(arguments).check
    wanted = pages()
    stale = out_of_date(reference, wanted)
    for path in stale:
        print(f"docs/reference/{path} {'is out of date; run `make docs`' if check else 'updated'}")
        if check:
            continue
        if path in wanted:
            (reference / path).parent.mkdir(parents=True, exist_ok=True)
            (reference / path).write_text(wanted[path], encoding="utf-8")
        else:
            (reference / path).unlink()
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
