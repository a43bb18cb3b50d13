"""One text without what is private in it."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

from tbd_trace.redact.identities import (
    HOST_VARIABLE,
    MAIL,
    PART,
    SEPARATOR,
    URL,
    USER_VARIABLE,
    Identities,
    is_loopback,
)
from tbd_trace.redact.secrets import text_without_secrets

Note = Callable[[str, str], object]
"""Called with the kind of what was found, and with what was found."""

_SOURCE = re.compile(
    r"\.(?:py|pyx|pyi|ipynb|c|cc|cpp|cxx|h|hh|hpp|cu|cuh|jl|rs|go|java|scala|js|ts|f90|F90)\.?$"
)
# Where files are that no system brings along. Not every path is of a file: TensorRT and ONNX have
# layers called /layer1/conv1/Conv.
_FILES = re.compile(
    r"(?:mnt|data|datasets|scratch|opt|tmp|var|workspace|work|projects|gpfs|lustre"
    r"|nfs|pscratch|raid)\d*"
)
_START = r"(?<![\w.@%+…>)\]~/\\-])"
_ABSOLUTE = rf"(?:[A-Za-z]:(?=[\\/])|~\w*(?=/)|(?:(?<!:)|(?!//)))(?:{SEPARATOR}{PART})+"
_RELATIVE = rf"(?<!:)(?:\.\.?/)?{PART}(?:{SEPARATOR}{PART}){{2,}}"
_PATH = re.compile(rf"{_START}(?:{_ABSOLUTE}|{_RELATIVE})")
_SPLIT = re.compile(SEPARATOR)

# Four numbers may be a version, unless they are of a private network or have a port.
_NUMBER = r"(?:25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])"
_ADDRESS = re.compile(
    rf"(?<![\w.-])(?:(?:10\.{_NUMBER}|172\.(?:1[6-9]|2[0-9]|3[01])|192\.168)(?:\.{_NUMBER}){{2}}(?![\w.-])"
    rf"|{_NUMBER}(?:\.{_NUMBER}){{3}}(?=:[0-9]))"
)
_NUMBERED_HOST = re.compile(r"(?<![\w.-])ip(?:-[0-9]+){4}(?![\w-])")
_ARGUMENTS = re.compile(r"""(['"])args\1\s*:""")

CANDIDATE = (
    r"""(?s:\{.*['"]args['"])|[\\/@]|[0-9]\.[0-9]+\.[0-9]|ip-[0-9]"""
    r"|(?:USER|USERNAME|LOGNAME|HOST|HOSTNAME)="
    r"|(?i:(?:pass|secret|token|credential|auth|key)[^=:]*[=:])"
    r"|(?i:-\S*(?:pass|secret|token|credential|auth|key))"
    r"|(?:gh[pousr]|github_pat|hf|npm|r8|wandb_v[0-9]+)_|(?:sk|glpat|nvapi|pypi|xox[a-z])-"
    r"|A(?:KI|SI|Iz)[Aa]|eyJ"
)
"""RE2: whatever else a text without a match may say, nothing here would change it."""


class Scrubber:
    """Takes private values out of texts.

    Args:
        identities: users and hosts.
        keep: kinds (:data:`tbd_trace.redact.tables.KINDS`) that stay in.
    """

    def __init__(self, identities: Identities, keep: frozenset[str] = frozenset()) -> None:
        self._names = identities
        self._keep = keep

    def text(self, text: str, note: Note) -> str:
        """Return a text without what is private in it."""
        if "kernel-arguments" not in self._keep:
            text = _without_arguments(text, note)
        if "secrets" not in self._keep:
            text = text_without_secrets(text, lambda secret: note("secrets", secret))
        return self._without_names(self.code(text, note), note)

    def code(self, text: str, note: Note) -> str:
        """Return the name of a function: words in it name no people, and only paths are private."""
        return _PATH.sub(lambda match: self._path(match, note), text)

    def file(self, path: str, note: Note) -> str:
        """Return the path of a file without its directories."""
        if "paths" in self._keep:
            return self.text(path, note)
        name = _SPLIT.split(path)[-1]
        if path in (name, f"…/{name}"):
            return self.text(path, note)
        note("paths", path)
        return "…/" + self.text(name, note)

    def _path(self, match: re.Match[str], note: Note) -> str:
        path = match[0]
        home = self._names.home_of(path)
        if _SOURCE.search(path):
            short = self._source(path, home)
            kind = "source-paths"
        elif home or self._is_of_files(path):
            short = self._file(path, home)
            kind = "paths"
        else:
            return path
        if short != path:
            note(kind, path)
        return self._without_users(short, note)

    def _source(self, path: str, home: str | None) -> str:
        """Keep the last two parts of the path of a source file."""
        if "source-paths" in self._keep:
            return self._with_home(path, home)
        if home and "paths" not in self._keep:
            path = self._with_home(path, home)
        parts = _SPLIT.split(path)
        return path if len(parts) <= 2 else "…/" + "/".join(parts[-2:])

    def _file(self, path: str, home: str | None) -> str:
        """Keep the home and the last part of the path of another file."""
        if "paths" in self._keep:
            return path
        if home is None:
            return "…/" + _SPLIT.split(path)[-1]
        parts = [part for part in _SPLIT.split(path[len(home) :]) if part]
        between = ["…"] if len(parts) > 1 else []
        return "/".join([self._names.home(home), *between, *parts[-1:]])

    def _with_home(self, path: str, home: str | None) -> str:
        if home is None or "paths" in self._keep:
            return path
        return self._names.home(home) + path[len(home) :]

    def _is_of_files(self, path: str) -> bool:
        parts = [part for part in _SPLIT.split(path) if part and not part.endswith(":")]
        return path[0] in "/\\" and len(parts) > 1 and _FILES.fullmatch(parts[0]) is not None

    def _without_users(self, path: str, note: Note) -> str:
        """Replace parts of a path that are names of users."""
        if "users" in self._keep:
            return path

        def replace(match: re.Match[str]) -> str:
            if match[0] not in self._names.users:
                return match[0]
            note("users", match[0])
            return self._names.user(match[0])

        return re.sub(PART, replace, path)

    def _without_names(self, text: str, note: Note) -> str:
        """Replace mail addresses, network addresses, and the names that are known."""
        if "users" not in self._keep:
            text = MAIL.sub(lambda m: self._user(m[1], note) + m[0][len(m[1]) :], text)
            text = USER_VARIABLE.sub(lambda m: f"{m[1]}={self._user(m[2], note)}", text)
        if "hosts" not in self._keep:
            text = MAIL.sub(lambda m: f"{m[1]}@{self._host(m[2], note)}", text)
            text = HOST_VARIABLE.sub(lambda m: f"{m[1]}={self._host(m[2], note)}", text)
            text = URL.sub(lambda m: m[0].removesuffix(m[1]) + self._host(m[1], note), text)
            for pattern in (_ADDRESS, _NUMBERED_HOST):
                text = pattern.sub(lambda m: self._host(m[0], note), text)
        return self._names.words_pattern().sub(lambda m: self._word(m[0], note), text)

    def _word(self, name: str, note: Note) -> str:
        if name in self._names.users:
            return name if "users" in self._keep else self._user(name, note)
        return name if "hosts" in self._keep else self._host(name, note)

    def _user(self, name: str, note: Note) -> str:
        return _noted("users", name, self._names.user(name), note)

    def _host(self, name: str, note: Note) -> str:
        return name if is_loopback(name) else _noted("hosts", name, self._names.host(name), note)


def _noted(kind: str, before: str, after: str, note: Note) -> str:
    if before != after:
        note(kind, before)
    return after


def _without_arguments(text: str, note: Note) -> str:
    """Return a marker of PyProf or DLProf with the types and shapes of arguments, not the values.

    Such a marker is a dictionary, ``{'mod': …, 'op': …, 'args': [{'type': 'int', 'value': 3}]}``;
    of what cannot be read all arguments are taken out.
    """
    start = _ARGUMENTS.search(text)
    if start is None or not text.startswith("{"):
        return text
    try:
        marker = ast.literal_eval(text)
        values = [argument["value"] for argument in marker["args"] if "value" in argument]
        kept = [{k: v for k, v in argument.items() if k != "value"} for argument in marker["args"]]
    except (ValueError, SyntaxError, TypeError, KeyError, AttributeError, RecursionError):
        if text[start.end() :] == " …":
            return text
        note("kernel-arguments", text[start.end() :].strip())
        return text[: start.end()] + " …"
    for value in values:
        note("kernel-arguments", repr(value))
    return str({**marker, "args": kept}) if values else text
