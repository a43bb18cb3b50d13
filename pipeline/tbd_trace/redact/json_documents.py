"""Redact private data in JSON documents and column values."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from tbd_trace.redact.identities import Identities
from tbd_trace.redact.secrets import HIDDEN, is_secret_name, without_secrets
from tbd_trace.redact.text import ReportFinding, TextRedactor

# Drivers report an unknown UUID as zeros and dashes.
_ZERO_UUID = re.compile(r"[0-]*")
_ENVIRONMENT = re.compile(r"env|environ|environment|environment_?variables", re.IGNORECASE)
_HOST = re.compile(r"host|host_?name|node_?name|machine", re.IGNORECASE)
_USER = re.compile(r"user|user_?name|login|log_?name", re.IGNORECASE)
_LAYER = re.compile(r"(layer(?:_backward)?:)(.+)", re.DOTALL)


class Redactor:
    """Redacts values, texts and JSON documents.

    Args:
        keep: kinds (:data:`tbd_trace.redact.tables.KINDS`) that are left unchanged.

    Attributes:
        names: known users and hosts.
    """

    def __init__(self, keep: frozenset[str] = frozenset()) -> None:
        self.names = Identities()
        self._keep = keep
        self._text_redactor = TextRedactor(self.names, keep)
        self.names.add_this_machine()

    def value(self, policy: str, value: Any, report: ReportFinding) -> Any:
        """Redact a column value.

        Args:
            policy: a key of :data:`tbd_trace.redact.column_policy.COLUMN_POLICIES`.
            value: a text, or a tuple of texts.
            report: called with each private value found.
        """
        if isinstance(value, tuple):
            return tuple(self.value(policy, entry, report) for entry in value)
        functions: dict[str, Callable[[str, ReportFinding], str]] = {
            "text": self.text,
            "code": self._text_redactor.code,
            "file": self._text_redactor.file,
            "document": self._json,
            "device": self._device,
        }
        return functions[policy](value, report)

    def text(self, text: str, report: ReportFinding) -> str:
        # The prefix is kept out of the patterns, so that a layer's ranges ("layer:NAME") and its
        # definition ("NAME") are redacted to the same name and still join.
        layer = _LAYER.fullmatch(text)
        if layer:
            return layer[1] + self._text_redactor.text(layer[2], report)
        return self._text_redactor.text(text, report)

    def document(self, value: Any, report: ReportFinding, field: str = "") -> Any:
        """Redact a JSON value.

        Environments are removed, lists of strings are redacted as command lines, and fields named
        as a host, a user or a secret are replaced regardless of their content.
        """
        if isinstance(value, dict):
            return {
                self.text(key, report): self.document(entry, report, key)
                for key, entry in value.items()
                if not self._is_environment(key, entry, report)
            }
        if isinstance(value, list):
            return [self.document(entry, report, field) for entry in self._arguments(value, report)]
        return self._field(value, field, report) if isinstance(value, str) else value

    def collect_identities(self, value: Any, field: str = "") -> None:
        """Add the user and host names in a text or JSON value to :attr:`names`."""
        if isinstance(value, dict):
            for key, entry in value.items():
                self.collect_identities(entry, key)
        elif isinstance(value, list | tuple):
            for entry in value:
                self.collect_identities(entry, field)
        elif isinstance(value, str):
            self.names.collect(value)
            if _HOST.fullmatch(field):
                self.names.add_host(value)
            if _USER.fullmatch(field):
                self.names.add_user(value)

    def _json(self, text: str, report: ReportFinding) -> str:
        try:
            document = json.loads(text)
        except ValueError:
            return self.text(text, report)
        redacted = self.document(document, report)
        # An unchanged document keeps its bytes: re-serialising would alter the spacing.
        return text if redacted == document else json.dumps(redacted, sort_keys=True)

    def _is_environment(self, field: str, value: Any, report: ReportFinding) -> bool:
        if "environment" in self._keep or not _ENVIRONMENT.fullmatch(field):
            return False
        report("environment", json.dumps(value))
        return True

    def _arguments(self, values: list[Any], report: ReportFinding) -> Sequence[Any]:
        # A list of strings may be a command line, where a secret follows its option: --token X.
        if "secrets" in self._keep or not all(isinstance(value, str) for value in values):
            return values
        hidden = without_secrets(values)
        for before, after in zip(values, hidden, strict=True):
            if before != after:
                report("secrets", before)
        return hidden

    def _field(self, value: str, field: str, report: ReportFinding) -> str:
        # The name of a field identifies private values that no pattern would find.
        rules: dict[str, tuple[bool, Callable[[str], str]]] = {
            "secrets": (is_secret_name(field), lambda _value: HIDDEN),
            "hosts": (bool(_HOST.fullmatch(field)), self.names.host),
            "users": (bool(_USER.fullmatch(field)), self.names.user),
        }
        for kind, (applies, replacement) in rules.items():
            if applies and value and kind not in self._keep:
                if (replaced := replacement(value)) != value:
                    report(kind, f"{field}={value}" if kind == "secrets" else value)
                return replaced
        return self.text(value, report)

    def _device(self, uuid: str, report: ReportFinding) -> str:
        if "device-ids" in self._keep or _ZERO_UUID.fullmatch(uuid):
            return uuid
        if (pseudonym := self.names.gpu(uuid)) != uuid:
            report("device-ids", uuid)
        return pseudonym
