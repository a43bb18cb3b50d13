"""Redact private data in a string."""

from __future__ import annotations

import ast
import ipaddress
import re
from collections.abc import Callable

from tbd_trace.redact.identities import (
    HOST_FIELD,
    HOST_VARIABLE,
    MAIL,
    PART,
    SEPARATOR,
    URL,
    URL_USER,
    USER_FIELD,
    USER_VARIABLE,
    Identities,
    is_loopback,
)
from tbd_trace.redact.secrets import TOKEN_CANDIDATE, text_without_secrets

ReportFinding = Callable[[str, str], object]
"""Callback that receives the kind of a private value, and the value."""

_SOURCE = re.compile(
    r"\.(?:py|pyx|pyi|ipynb|c|cc|cpp|cxx|h|hh|hpp|cu|cuh|jl|rs|go|java|scala|js|ts|f90|F90)\.?$"
)
# Top directories with users' files. System paths such as /usr/lib are not private, and other paths
# are not files: TensorRT and ONNX name layers /layer1/conv1/Conv.
_FILES = re.compile(
    r"(?:mnt|data|datasets|scratch|opt|tmp|var|workspace|work|projects|gpfs|lustre"
    r"|nfs|pscratch|raid)\d*"
)
# A path begins after a space, quote or similar, not in the middle of a word or another path.
_START = r"(?<![\w.@%+…>)\]~/\\-])"
_ABSOLUTE = rf"(?:[A-Za-z]:(?=[\\/])|~\w*(?=/)|(?:(?<!:)|(?!//)))(?:{SEPARATOR}{PART})+"
_RELATIVE = rf"(?<!:)(?:\.\.?/)?{PART}(?:{SEPARATOR}{PART}){{2,}}"
_PATH = re.compile(rf"{_START}(?:{_ABSOLUTE}|{_RELATIVE})")
_SPLIT = re.compile(SEPARATOR)
# A file on a Windows server, \\server\share\file, also with escaped backslashes.
_UNC = re.compile(rf"(?<![\w\\/])(?:\\\\){{1,2}}{PART}(?:\\{{1,2}}{PART})+")

# IPv4 addresses of private networks (RFC 1918), or with a port; other dotted numbers may be
# versions such as 12.0.1.5.
_NUMBER = r"(?:25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])"
_ADDRESS = re.compile(
    rf"(?<![\w.-])(?:(?:10\.{_NUMBER}|172\.(?:1[6-9]|2[0-9]|3[01])|192\.168)(?:\.{_NUMBER}){{2}}(?![\w.-])"
    rf"|{_NUMBER}(?:\.{_NUMBER}){{3}}(?=:[0-9]))"
)
# IPv6 addresses of the ranges in use (RFC 4291: global, unique local, link-local); C++ names such
# as ada::fad are valid addresses too.
_ADDRESS_6 = re.compile(
    r"(?<![\w:.])(?:[23][0-9a-f]{3}|f[cd][0-9a-f]{2}|fe[89ab][0-9a-f])(?::[0-9a-f]{0,4}){2,7}(?![\w:])"
    r"(?:%\w+)?",
    re.IGNORECASE,
)
_HARDWARE_ADDRESS = re.compile(
    r"(?<![\w:-])[0-9A-Fa-f]{2}([:-])[0-9A-Fa-f]{2}(?:\1[0-9A-Fa-f]{2}){4}(?![\w:-])"
)
_GPU = re.compile(r"(?<![\w-])(?:GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![\w-])")
# Host names that AWS derives from addresses: ip-10-0-0-1.
_NUMBERED_HOST = re.compile(r"(?<![\w.-])ip(?:-[0-9]+){4}(?![\w-])")
_ARGUMENTS = re.compile(r"""(['"])args\1\s*:""")

CANDIDATE = (
    r"""(?s:\{.*['"]args['"])|[\\/@]|[0-9]\.[0-9]+\.[0-9]|ip-[0-9]"""
    r"|[0-9A-Fa-f]:[0-9A-Fa-f]{0,4}:|(?:[0-9A-Fa-f]{2}-){5}|(?:GPU|MIG)-"
    r"|(?:(?i:user|username|host|hostname|node|nodename)|user_name|host_name|node_name|login"
    r"|LOGNAME|NODELIST|MASTER_ADDR)="
    r"|(?i:(?:pass|secret|token|credential|auth|key)[^=:]*[=:])"
    r"|(?i:-\S*(?:pass|secret|token|credential|auth|key))"
    rf"|{TOKEN_CANDIDATE}"
)
"""RE2 pattern that matches every text that :class:`TextRedactor` may change, names aside."""


class TextRedactor:
    """Redacts strings.

    Args:
        keep: kinds (:data:`tbd_trace.redact.tables.KINDS`) that are left unchanged.
    """

    def __init__(self, identities: Identities, keep: frozenset[str] = frozenset()) -> None:
        self._names = identities
        self._keep = keep

    def text(self, text: str, report: ReportFinding) -> str:
        if "kernel-arguments" not in self._keep:
            text = _without_arguments(text, report)
        return self._without_words(self.code(text, report), report)

    def code(self, text: str, report: ReportFinding) -> str:
        """Redact what the form of a function's name shows to be private; its words are code."""
        if "secrets" not in self._keep:
            text = text_without_secrets(text, lambda secret: report("secrets", secret))
        if "paths" not in self._keep:
            text = _UNC.sub(lambda match: self._server_file(match[0], report), text)
        text = _PATH.sub(lambda match: self._path(match, report), text)
        if "device-ids" not in self._keep:
            text = _GPU.sub(
                lambda m: _reported("device-ids", m[0], self._names.gpu(m[0]), report), text
            )
        return self._without_names(text, report)

    def file(self, path: str, report: ReportFinding) -> str:
        if "paths" in self._keep:
            return self.text(path, report)
        name = _SPLIT.split(path)[-1]
        if path in (name, f"…/{name}"):
            return self.text(path, report)
        report("paths", path)
        return "…/" + self.text(name, report)

    def _path(self, match: re.Match[str], report: ReportFinding) -> str:
        path = match[0]
        home = self._names.home_of(path)
        if _SOURCE.search(path):
            short = self._source(path, home)
            kind = "source-paths"
        elif home or self._is_data_path(path):
            short = self._file(path, home)
            kind = "paths"
        else:
            return path
        if short != path:
            report(kind, path)
        return self._without_users(short, report)

    def _source(self, path: str, home: str | None) -> str:
        # Two components identify a module: .../models/bert.py.
        if "source-paths" in self._keep:
            return self._with_home(path, home)
        if home and "paths" not in self._keep:
            path = self._with_home(path, home)
        parts = _SPLIT.split(path)
        if self._is_data_path(path) and "paths" not in self._keep:
            # The first directory under /tmp, /mnt and the like names a user or a project.
            return "…/" + "/".join((parts[3:] or parts[-1:])[-2:])
        return path if len(parts) <= 2 else "…/" + "/".join(parts[-2:])

    def _file(self, path: str, home: str | None) -> str:
        # The home marks the path as a user's, and the name identifies the file: ~/.../run.nsys-rep.
        if "paths" in self._keep:
            return path
        if home is None:
            return "…/" + _SPLIT.split(path)[-1]
        parts = [part for part in _SPLIT.split(path[len(home) :]) if part]
        between = ["…"] if len(parts) > 1 else []
        return "/".join([self._names.home(home), *between, *parts[-1:]])

    def _server_file(self, path: str, report: ReportFinding) -> str:
        report("paths", path)
        return "…/" + _SPLIT.split(path)[-1]

    def _with_home(self, path: str, home: str | None) -> str:
        if home is None or "paths" in self._keep:
            return path
        return self._names.home(home) + path[len(home) :]

    def _is_data_path(self, path: str) -> bool:
        parts = [part for part in _SPLIT.split(path) if part and not part.endswith(":")]
        return path[0] in "/\\" and len(parts) > 1 and _FILES.fullmatch(parts[0]) is not None

    def _without_users(self, path: str, report: ReportFinding) -> str:
        if "users" in self._keep:
            return path

        def replace(match: re.Match[str]) -> str:
            if match[0] not in self._names.users:
                return match[0]
            report("users", match[0])
            return self._names.user(match[0])

        return re.sub(PART, replace, path)

    def _without_names(self, text: str, report: ReportFinding) -> str:
        # Users before hosts: the account of a mail address is a user, its domain a host.
        if "users" not in self._keep:
            text = MAIL.sub(lambda m: self._user(m[1], report) + m[0][len(m[1]) :], text)
            text = URL_USER.sub(lambda m: self._user(m[1], report), text)
            for pattern in (USER_VARIABLE, USER_FIELD):
                text = pattern.sub(lambda m: f"{m[1]}={self._user(m[2], report)}", text)
        if "hosts" not in self._keep:
            text = MAIL.sub(lambda m: f"{m[1]}@{self._host(m[2], report)}", text)
            for pattern in (HOST_VARIABLE, HOST_FIELD):
                text = pattern.sub(lambda m: f"{m[1]}={self._host(m[2], report)}", text)
            text = URL.sub(lambda m: m[0].removesuffix(m[1]) + self._host(m[1], report), text)
            text = _ADDRESS_6.sub(lambda m: self._address(m[0], report), text)
            for pattern in (_ADDRESS, _HARDWARE_ADDRESS, _NUMBERED_HOST):
                text = pattern.sub(lambda m: self._host(m[0], report), text)
        return text

    def _without_words(self, text: str, report: ReportFinding) -> str:
        return self._names.words_pattern().sub(lambda m: self._word(m[0], report), text)

    def _word(self, name: str, report: ReportFinding) -> str:
        if name in self._names.users:
            return name if "users" in self._keep else self._user(name, report)
        return name if "hosts" in self._keep else self._host(name, report)

    def _user(self, name: str, report: ReportFinding) -> str:
        return _reported("users", name, self._names.user(name), report)

    def _address(self, address: str, report: ReportFinding) -> str:
        try:
            ipaddress.IPv6Address(address)
        except ValueError:
            return address
        return self._host(address, report)

    def _host(self, name: str, report: ReportFinding) -> str:
        return (
            name if is_loopback(name) else _reported("hosts", name, self._names.host(name), report)
        )


def _reported(kind: str, before: str, after: str, report: ReportFinding) -> str:
    if before != after:
        report(kind, before)
    return after


def _without_arguments(text: str, report: ReportFinding) -> str:
    # PyProf and DLProf write a marker per operator, a Python dictionary with the types, shapes and
    # values of its arguments: {'mod': …, 'op': …, 'args': [{'type': 'int', 'value': 3}]}. Types and
    # shapes stay. Profilers cut long markers off; of these, all arguments are removed.
    start = _ARGUMENTS.search(text)
    if start is None or not text.startswith("{"):
        return text
    try:
        marker = ast.literal_eval(text)
        values = [argument["value"] for argument in marker["args"] if "value" in argument]
        arguments = [
            {k: v for k, v in argument.items() if k != "value"} for argument in marker["args"]
        ]
    except (ValueError, SyntaxError, TypeError, KeyError, AttributeError, RecursionError):
        if text[start.end() :] == " …":
            return text
        report("kernel-arguments", text[start.end() :].strip())
        return text[: start.end()] + " …"
    for value in values:
        report("kernel-arguments", repr(value))
    return str({**marker, "args": arguments}) if values else text
