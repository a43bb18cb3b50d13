"""Read the JSON files of a capture directory, and validate layers.json."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tbd_trace.errors import InputError

_TEXTS = ("type", "precision")
_COUNTS = ("parameters", "weight_bytes", "gradient_bytes", "feature_map_bytes")
_NUMBERS = ("forward_flop", "backward_flop")
_LARGEST = 2**53  # JSON numbers are exact up to here (RFC 8259, section 6)


def read_json(path: Path) -> dict[str, Any]:
    """Return the object of a JSON file.

    Raises:
        InputError: the file cannot be read, or is not a JSON object.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8-sig"))
        json.dumps(document, ensure_ascii=False).encode()  # \ud800 is JSON, but no text
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: not readable as JSON ({error}); collect it again") from error
    except RecursionError:
        raise InputError(f"{path}: nested too deeply for a capture; collect it again") from None
    if not isinstance(document, dict):
        raise InputError(f"{path}: expected a JSON object; collect it again")
    return document


def read_layers(path: Path) -> list[dict[str, Any]]:
    """Return the layers of layers.json in forward order, an empty list without the file.

    Raises:
        InputError: the file is invalid (docs/reference/capture_directory.md).
    """
    if not path.is_file():
        return []
    layers = read_json(path).get("layers", [])
    if not isinstance(layers, list) or not all(isinstance(layer, dict) for layer in layers):
        raise InputError(f"{path}: expected a list `layers` of objects")
    seen: set[str] = set()
    for position, layer in enumerate(layers, 1):
        name = layer.get("name")
        if not isinstance(name, str):
            raise InputError(f"{path}: layer {position} has no `name`; name it like its ranges")
        if name in seen:
            raise InputError(f"{path}: two layers are called {name!r}; a name belongs to one layer")
        seen.add(name)
        _check_layer(path, layer)
    return layers


def _check_layer(path: Path, layer: Mapping[str, Any]) -> None:
    wrong = [
        *((field, "a text") for field in _TEXTS if not _is_text(layer.get(field))),
        *((field, "a whole number") for field in _COUNTS if not is_count(layer.get(field))),
        *((field, "a number") for field in _NUMBERS if not _is_number(layer.get(field))),
    ]
    for field_name, expected in wrong:
        raise InputError(
            f"{path}: {field_name} of layer {layer['name']!r} is {layer[field_name]!r}, "
            f"expected {expected}, or null if it is not known"
        )


def _is_text(value: object) -> bool:
    return value is None or isinstance(value, str)


def is_count(value: object) -> bool:
    """Return True for a non-negative integer or None."""
    if value is None:
        return True
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST


def _is_number(value: object) -> bool:
    if is_count(value):
        return True
    return isinstance(value, float) and math.isfinite(value) and value >= 0
