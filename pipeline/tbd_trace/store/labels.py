"""Facts about the run of a profile that its user knows: model, batch size and others."""

from __future__ import annotations

import csv
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb

from tbd_trace.errors import InputError, UsageError
from tbd_trace.model.canonical_tables import CATALOGUE
from tbd_trace.sqltext import parquet_relation, string
from tbd_trace.store.capture import CaptureFile
from tbd_trace.store.checksums import update_checksum
from tbd_trace.store.staging import private_directory, replace_published
from tbd_trace.store.tables import FAST_PARQUET, whole_file

Label = str | int | bool

FILE = "labels.csv"
"""Name of a file of labels that an ingested directory may contain."""

_WHOLE = ("batch_size", "world_size", "gradient_accumulation")
_TRUTH = {"true": True, "false": False}
_KNOWN = (
    *("model", "variant", "framework", "framework_version", "dataset", "precision", "optimizer"),
    *("batch_definition", "sequence_policy", "scale", "gpu", "activation_checkpointing"),
    *_WHOLE,
)


def parsed(assignments: Sequence[str]) -> dict[str, Label]:
    """Parse labels of the form ``NAME=VALUE``.

    Raises:
        UsageError: a label has no value, an unknown name or a value of the wrong type.
    """
    labels = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals or not value.strip():
            raise UsageError(f"--label {assignment}: expected NAME=VALUE")
        try:
            labels[name.strip()] = _value(name.strip(), value.strip())
        except ValueError as error:
            raise UsageError(f"--label {assignment}: {error}") from None
    return labels


def _value(name: str, text: str) -> Label:
    if name not in _KNOWN:
        raise ValueError(f"unknown label; the labels are {', '.join(sorted(_KNOWN))}")
    if name in _WHOLE:
        if not (text.isascii() and text.isdigit() and 0 < int(text[:19]) < 2**63):
            raise ValueError(f"{name} must be a whole number above 0")
        return int(text)
    if name == "activation_checkpointing":
        if text not in _TRUTH:
            raise ValueError(f"{name} must be true or false")
        return _TRUTH[text]
    return text


def read_labels(path: Path) -> dict[str, dict[str, Label]]:
    """Read a CSV file of labels: column ``file``, then a column per label.

    Returns:
        The labels by file, as written there; empty cells are left out.

    Raises:
        InputError: the file cannot be read, or a column or value is invalid.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            rows = list(reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: labels cannot be read ({error}); write UTF-8 CSV") from error
    if "file" not in (reader.fieldnames or ()):
        raise InputError(f"{path}: no column `file`; add it with the names of the profiles")
    labels_by_file = {}
    for number, row in enumerate(rows, 2):
        cells = {name: text.strip() for name, text in row.items() if isinstance(text, str)}
        try:
            labels = {n: _value(n, text) for n, text in cells.items() if n != "file" and text}
        except ValueError as error:
            raise InputError(f"{path}: line {number}: {error}") from None
        labels_by_file[cells.get("file", "")] = labels
    return labels_by_file


def labelled(file: CaptureFile, labels: Mapping[str, Label]) -> CaptureFile:
    """Return the file with labels, which take precedence over its capture.json."""
    if not labels:
        return file
    every: dict[str, Label] = {**file.labels, **labels}
    metadata = file.metadata | every | {"labels": sorted(every)}
    return replace(file, metadata=metadata, labels=every)


def file_labels(
    labels: Mapping[str, Mapping[str, Label]], file: CaptureFile
) -> Mapping[str, Label]:
    """Return the labels of a profiler file: by its path, its name or that of its directory."""
    names = (str(file.path), file.name, file.path.name, file.path.parent.name)
    return next((labels[name] for name in names if name in labels), {})


def restate(target: Path, file: CaptureFile) -> None:
    """Give a published trace the labels of a file, and its name if the user gave one.

    Raises:
        StoreError: the directory cannot be written.
    """
    with private_directory(target) as staging:
        catalogue, changed = whole_file(target, CATALOGUE), whole_file(staging, CATALOGUE)
        for old in target.iterdir():
            if old != catalogue:
                _link(old, staging / old.name)
        _write_row(catalogue, changed, file.name if file.is_named else None, file.labels)
        update_checksum(staging, changed)
        replace_published(staging, target)


def _link(file: Path, link: Path) -> None:
    if file.name.endswith(".parquet"):
        try:
            os.link(file, link)
            return
        except OSError:  # a file system without links
            pass
    shutil.copy2(file, link)


def _write_row(old: Path, new: Path, name: str | None, labels: Mapping[str, Label]) -> None:
    with duckdb.connect() as connection:
        rows = parquet_relation([old])
        ((text,),) = connection.execute(f"SELECT capture FROM ({rows})").fetchall()
        capture: dict[str, Any] = {**json.loads(text or "{}"), **labels}
        known = {*capture.get("labels", ()), *labels}
        capture |= {"labels": sorted(known)} if known else {}
        connection.execute(
            f"""CREATE TEMP TABLE changed AS SELECT * REPLACE (
                    coalesce($name, name) AS name, $capture AS capture,
                    coalesce($batch_size, batch_size)::BIGINT AS batch_size)
                FROM ({rows})""",
            {
                "name": name,
                "capture": json.dumps(capture, sort_keys=True) if capture else None,
                "batch_size": labels.get("batch_size"),
            },
        )
        connection.execute(f"COPY changed TO {string(str(new))} ({FAST_PARQUET})")
