"""Render the page of the Python API, from the docstrings of its public names."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import tbd_trace
from reference_pages.markdown import table

_HEADING = re.compile(r"^(Args|Returns|Raises):$")
_ENTRY = re.compile(r"^    (?P<names>[\w, ]+): (?P<text>.+)$")
_SELF = re.compile(r"^\(self(?:, /)?(?:, )?")
_MODULE = re.compile(r"\b(?:tbd_trace|duckdb|queries|pl)\.(?=[A-Z])")
_ROLE = re.compile(r":\w+:`~?(?:[\w.]+\.)?(\w+)`")
# A comment behind a field or in the lines above it describes it.
_FIELD = re.compile(r"^    (?P<name>[a-z]\w*): [^#=]+(?:=[^#]*)?(?:  # (?P<doc>.+))?$")
_COMMENT = re.compile(r"^    # (?P<doc>.+)$")


def api_page() -> str:
    """Return the page in Markdown."""
    objects = {name: getattr(tbd_trace, name) for name in tbd_trace.__all__ if name[0] != "_"}
    functions = [name for name, value in objects.items() if inspect.isfunction(value)]
    errors = [
        name
        for name, value in objects.items()
        if inspect.isclass(value) and issubclass(value, BaseException)
    ]
    classes = [name for name in objects if name not in (*functions, *errors)]
    lines = [
        "# Python API",
        "",
        "Everything that `tbd_trace` exports, for scripts and notebooks. It is typed: scripts that "
        "use it pass `mypy --strict`. The examples run in a checkout of the project.",
    ]
    for name in sorted(functions, reverse=True):
        lines += ["", f"## `{name}`", "", *_callable(name, objects[name])]
    for name in classes:
        lines += ["", f"## `{name}`", "", *_class(name, objects[name])]
    # The base class of all errors first.
    errors.sort(key=lambda error: (len(objects[error].__mro__), error))
    rows = [_error(name, objects[name]) for name in errors]
    lines += ["", "## Errors", ""]
    lines += table(["error", "base", "exit code of the command", "meaning"], rows)
    return "\n".join([*lines, ""])


def _callable(name: str, function: Any) -> Iterator[str]:
    signature = str(inspect.signature(function)).replace("'", "")
    signature = _SELF.sub("(", _MODULE.sub("", signature))
    yield from ("```python", f"{name}{signature}", "```", "")
    yield from _docstring(function)


def _class(name: str, class_object: type) -> Iterator[str]:
    yield from _docstring(class_object)
    if is_dataclass(class_object):
        documented = {
            name: doc
            for each in class_object.__mro__
            if is_dataclass(each)
            for name, doc in _fields(each)
        }
        names = [field.name for field in fields(class_object) if not field.name.startswith("_")]
        rows = [[f"`{name}`", documented.get(name, "")] for name in names]
        yield from ("", *table(["attribute", "meaning"], rows))
    for method, function in vars(class_object).items():
        if inspect.isfunction(function) and not method.startswith("_"):
            yield from ("", f"### `{name}.{method}`", "")
            yield from _callable(method, function)


def _error(name: str, error: Any) -> list[str]:
    meaning = (inspect.getdoc(error) or "").split("\n\n")[0].replace("\n", " ")
    code = str(getattr(error, "exit_code", ""))
    return [f"`{name}`", f"`{error.__base__.__name__}`", code, meaning]


def _fields(class_object: type) -> Iterator[tuple[str, str]]:
    above: list[str] = []
    for line in inspect.getsource(class_object).splitlines():
        if match := _COMMENT.match(line):
            above.append(match["doc"])
            continue
        if match := _FIELD.match(line):
            yield match["name"], _plain(match["doc"] or " ".join(above))
        above = []


def _docstring(documented: Any) -> Iterator[str]:
    # Google's sections become lists, examples code blocks.
    in_example = False
    for line in (inspect.getdoc(documented) or "").splitlines():
        is_example = line.startswith((">>>", "...")) or (in_example and bool(line))
        if is_example != in_example:
            yield "```pycon" if is_example else "```"
        in_example = is_example
        if is_example:
            yield line
        elif match := _HEADING.match(line):
            yield from (f"**{'Arguments' if match[1] == 'Args' else match[1]}**", "")
        elif match := _ENTRY.match(line):
            yield f"- `{match['names']}`: {_plain(match['text'])}"
        else:
            yield _plain(line.strip() if line.startswith("    ") else line)
    if in_example:
        yield "```"


def _plain(text: str) -> str:
    return _ROLE.sub(r"`\1`", text).replace("``", "`")
