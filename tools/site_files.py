"""Hooks of mkdocs: files of the site at their paths in the repository, navigation, tables.

Pages link to files outside docs/, such as the README, queries and tables of data. At the paths of
the repository these links work in the site, too.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
INDEX = "docs/README.md"
OUTSIDE = ("*.md", "LICENSE", "data/**/*", "models/*.csv", "queries/**/*.sql")
ROW = re.compile(r"^ *\|.*", re.MULTILINE)
CODE = re.compile(r"`[^`\n]+`")
LINK = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")


def on_config(config: MkDocsConfig) -> None:
    """Take the sections and pages of the navigation from the lists of docs/README.md."""
    index = (ROOT / INDEX).read_text(encoding="utf-8")
    nav: list[dict[str, object]] = [{"Home": "README.md"}]
    for section in index.split("\n## ")[1:]:
        heading, _, pages = section.partition("\n")
        nav.append({heading: [{name: _path(link)} for name, link in LINK.findall(pages)]})
    nav.append({"Project": ["CONTRIBUTING.md", "CHANGELOG.md"]})
    config.nav = nav


@event_priority(100)  # before the plugin that looks for notebooks among the files
def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Return the files of the theme, of docs/, and those outside that pages link to."""
    theme = [file for file in files if file.src_dir != config.docs_dir]
    pages = [f"docs/{file.src_uri}" for file in files if file.src_dir == config.docs_dir]
    outside = [path for pattern in OUTSIDE for path in ROOT.glob(pattern) if path.is_file()]
    pages += [path.relative_to(ROOT).as_posix() for path in outside]
    root, site, directories = str(ROOT), config.site_dir, config.use_directory_urls
    return Files([*theme, *(File(page, root, site, directories) for page in pages)])


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    r"""Write ``\|`` in code of tables as ``|``: mkdocs shows the backslash, GitHub needs it."""
    return ROW.sub(lambda row: CODE.sub(lambda code: code[0].replace(r"\|", "|"), row[0]), markdown)


def _path(link: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(INDEX), link))
