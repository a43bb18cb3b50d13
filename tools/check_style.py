"""Check the house rules that ruff cannot: words, lengths, widths, tables, docstring share.

``tools/style.toml`` holds the rules. Run ``python tools/check_style.py`` for the violations, or
with ``--figures`` for the shares of docstrings and comments in each package.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RULES = ROOT / "tools" / "style.toml"
_SQL_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_FENCE = re.compile(r"^ *(```|~~~).*?^ *\1", re.DOTALL | re.MULTILINE)
_SEPARATOR = re.compile(r"(?<!\\)\|")
_STRINGS = (tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING))


@dataclass(frozen=True, slots=True)
class Figures:
    """Line counts of a package."""

    code: int  # lines with code, without docstrings
    docstring: int
    comment: int  # lines with a comment

    @property
    def docstring_pct(self) -> float:
        """Docstring lines per 100 lines of code."""
        return 100 * self.docstring / max(self.code, 1)

    @property
    def comment_pct(self) -> float:
        """Comment lines per 100 lines of code."""
        return 100 * self.comment / max(self.code, 1)


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line number and text of each passage: comments, Python strings, Markdown files."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in (*_STRINGS, tokenize.COMMENT):
                yield token.start[0], token.string
    elif path.suffix == ".sql":
        for match in _SQL_COMMENT.finditer(text):
            yield text.count("\n", 0, match.start()) + 1, match[0]
    else:
        yield 1, text


def odd_words(path: Path, words: list[tuple[re.Pattern[str], str]]) -> Iterator[str]:
    """Yield a message for each use of a listed word in a file."""
    for first, text in prose(path):
        for pattern, instead in words:
            for match in pattern.finditer(text):
                line = first + text.count("\n", 0, match.start())
                phrase = " ".join(match[0].split())
                yield f"{path.relative_to(ROOT)}:{line}: {phrase!r}; {instead}"


def odd_rows(text: str) -> Iterator[tuple[int, int, int]]:
    r"""Yield line number, cells and cells of the head of each row of a Markdown table that differ.

    GitHub divides a row at each ``|`` without a backslash, also in code, and drops the cells that
    the head lacks. A ``|`` is written ``\|``.
    """
    text = _FENCE.sub(lambda match: "\n" * match[0].count("\n"), text)
    head = 0
    for number, line in enumerate(text.splitlines(), 1):
        cells = len(_SEPARATOR.findall(line.strip())) - 1 if line.lstrip().startswith("|") else 0
        if cells and head and cells != head:
            yield number, cells, head
        head = cells and (head or cells)


def count_lines(files: list[Path]) -> Figures:
    """Count the lines of code, docstrings and comments of Python files."""
    code = docstring = comment = 0
    for path in files:
        text = path.read_text(encoding="utf-8")
        source = text.splitlines()
        documented = {
            line
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and ast.get_docstring(node, clean=False) is not None
            for line in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)
            # Tests run the examples: they are code.
            if not source[line - 1].lstrip().startswith((">>> ", "... "))
        }
        lines: set[int] = set()
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                comment += 1
            elif token.string.strip():
                lines.update(range(token.start[0], token.end[0] + 1))
        docstring += len(documented)
        code += len(lines - documented)
    return Figures(code, docstring, comment)


def _files(patterns: list[str]) -> list[Path]:
    return sorted({path for pattern in patterns for path in ROOT.glob(pattern) if path.is_file()})


def violations(rules: dict[str, Any]) -> Iterator[str]:
    """Yield a message for each violation of ``style.toml``."""
    settings = rules["words"]
    words = [(re.compile(word["pattern"]), word["use"]) for word in settings["list"]]
    for path in _files(settings["files"]):
        yield from odd_words(path, words)
    lengths = rules["length"]
    for path in _files(lengths["files"]):
        lines = path.read_text(encoding="utf-8").count("\n")
        if lines > lengths["most_lines"]:
            most = lengths["most_lines"]
            yield f"{path.relative_to(ROOT)}: {lines} lines; split it (at most {most})"
    width = rules["sql_width"]
    for path in _files(width["files"]):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if len(line) > width["most_columns"]:
                yield (
                    f"{path.relative_to(ROOT)}:{number}: {len(line)} columns; wrap it "
                    f"(at most {width['most_columns']})"
                )
    for path in _files(rules["tables"]["files"]):
        for number, cells, head in odd_rows(path.read_text(encoding="utf-8")):
            yield (
                f"{path.relative_to(ROOT)}:{number}: {cells} cells under a head of {head}; "
                "write | in a cell as \\|"
            )
    for package, most, least in shares(rules):
        figures = count_lines(sorted((ROOT / package).rglob("*.py")))
        if figures.docstring_pct > most:
            yield (
                f"{package}: {figures.docstring_pct:.1f} docstring lines per 100 lines of code; "
                f"remove docstrings that repeat a name (at most {most})"
            )
        if figures.comment_pct < least:
            yield (
                f"{package}: {figures.comment_pct:.1f} comment lines per 100 lines of code; "
                f"give reasons where the code cannot (at least {least})"
            )


def shares(rules: dict[str, Any]) -> Iterator[tuple[str, float, float]]:
    """Yield package, maximum docstring lines and minimum comment lines per 100 lines of code."""
    for package, limits in rules["shares"].items():
        most, least = limits
        yield package, most, least


def main() -> int:
    """Print violations or figures; return 1 if there are violations."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--figures", action="store_true", help="print shares of each package")
    parser.add_argument("paths", nargs="*", help="limit violations to these path prefixes")
    arguments = parser.parse_args()
    rules = tomllib.loads(RULES.read_text(encoding="utf-8"))
    if arguments.figures:
        for package, *_ in shares(rules):
            figures = count_lines(sorted((ROOT / package).rglob("*.py")))
            print(
                f"{package}: {figures.code:,} lines of code, docstrings "
                f"{figures.docstring_pct:.1f} %, comments {figures.comment_pct:.1f} %"
            )
        return 0
    messages = [
        text
        for text in violations(rules)
        if not arguments.paths or any(text.startswith(path) for path in arguments.paths)
    ]
    print("\n".join(messages) if messages else "style: no violations")
    return 1 if messages else 0


if __name__ == "__main__":
    sys.exit(main())
