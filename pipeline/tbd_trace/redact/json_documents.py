"""JSON documents and values of columns without what is private in them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from tbd_trace.redact.identities import Identities
from tbd_trace.redact.secrets import HIDDEN, is_secret_name, without_secrets
from tbd_trace.redact.text import Note, Scrubber

_NO_UUID = re.compile(r"[0-]*")
_ENVIRONMENT = re.compile(r"env|environ|environment|environment_?variables", re.IGNORECASE)
_HOST = re.compile(r"host|host_?name|node_?name|machine", re.IGNORECASE)
_USER = re.compile(r"user|user_?name|login|log_?name", re.IGNORECASE)
_LAYER = re.compile(r"(layer(?:_backward)?:)(.+)", re.DOTALL)


class Treatment:
    """Takes private values out of whatever an archive holds.

    Args:
        keep: kinds (:data:`tbd_trace.redact.tables.KINDS`) that stay in.

    Attributes:
        names: the users and hosts that are known.
    """

    def __init__(self, keep: frozenset[str] = frozenset()) -> None:
        self.names = Identities()
        self._keep = keep
        self._scrubber = Scrubber(self.names, keep)
        self.names.learn_machine()

    def value(self, treatment: str, value: Any, note: Note) -> Any:
        """Return the value of a column; see :data:`tbd_trace.redact.column_policy.TREATMENTS`."""
        if isinstance(value, tuple):
            return tuple(self.value(treatment, entry, note) for entry in value)
        functions: dict[str, Callable[[str, Note], str]] = {
            "text": self.text,
            "code": self._scrubber.code,
            "file": self._scrubber.file,
            "document": self._json,
            "device": self._device,
        }
        return functions[treatment](value, note)

    def text(self, text: str, note: Note) -> str:
        """Return any text."""
        # A layer is called the same in its ranges and in its definition.
        layer = _LAYER.fullmatch(text)
        if layer:
            return layer[1] + self._scrubber.text(layer[2], note)
        return self._scrubber.text(text, note)

    def document(self, value: Any, note: Note, field: str = "") -> Any:
        """Return a JSON value.

        Environments are left out, lists of strings are scrubbed as command lines, and fields that
        are called a host, a user or a secret are replaced whatever they say.
        """
        if isinstance(value, dict):
            return {
                self.text(key, note): self.document(entry, note, key)
                for key, entry in value.items()
                if not self._is_environment(key, entry, note)
            }
        if isinstance(value, list):
            return [self.document(entry, note, field) for entry in self._arguments(value, note)]
        return self._field(value, field, note) if isinstance(value, str) else value

    def learn(self, value: Any, field: str = "") -> None:
        """Learn the names in a JSON value, or a text."""
        if isinstance(value, dict):
            for key, entry in value.items():
                self.learn(entry, key)
        elif isinstance(value, list | tuple):
            for entry in value:
                self.learn(entry, field)
        elif isinstance(value, str):
            self.names.learn(value)
            if _HOST.fullmatch(field):
                self.names.learn_host(value)
            if _USER.fullmatch(field):
                self.names.learn_user(value)

    def _json(self, text: str, note: Note) -> str:
        try:
            document = json.loads(text)
        except ValueError:
            return self.text(text, note)
        redacted = self.document(document, note)
        return text if redacted == document else json.dumps(redacted, sort_keys=True)

    def _is_environment(self, field: str, value: Any, note: Note) -> bool:
        if "environment" in self._keep or not _ENVIRONMENT.fullmatch(field):
            return False
        note("environment", json.dumps(value))
        return True

    def _arguments(self, values: list[Any], note: Note) -> Sequence[Any]:
        """Return a list without the secrets in it, if it may be a command line."""
        if "secrets" in self._keep or not all(isinstance(value, str) for value in values):
            return values
        hidden = without_secrets(values)
        for before, after in zip(values, hidden, strict=True):
            if before != after:
                note("secrets", before)
        return hidden

    def _field(self, value: str, field: str, note: Note) -> str:
        """Return what a field says; what it is called may tell what that is."""
        rules: dict[str, tuple[bool, Callable[[str], str]]] = {
            "secrets": (is_secret_name(field), lambda _value: HIDDEN),
            "hosts": (bool(_HOST.fullmatch(field)), self.names.host),
            "users": (bool(_USER.fullmatch(field)), self.names.user),
        }
        for kind, (applies, replacement) in rules.items():
            if applies and value and kind not in self._keep:
                if (replaced := replacement(value)) != value:
                    note(kind, f"{field}={value}" if kind == "secrets" else value)
                return replaced
        return self.text(value, note)

    def _device(self, uuid: str, note: Note) -> str:
        if "device-ids" in self._keep or _NO_UUID.fullmatch(uuid):
            return uuid
        if (placeholder := self.names.gpu(uuid)) != uuid:
            note("device-ids", uuid)
        return placeholder
