"""Turn command-line arguments into workloads, commands and capture directories."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tbd_collectors.collection_request import Command, Workload
from tbd_models.definition import UnsupportedError
from tbd_models.registry import FRAMEWORKS, NAMES, find, is_implemented
from tbd_trace.errors import UsageError


def is_command(words: Sequence[str]) -> bool:
    """Return True if the words are a command rather than the name of a model."""
    if len(words) != 1:
        return bool(words)
    # A misspelled model is more likely than a program that does not exist, unless it is a path.
    return words[0] not in NAMES and (os.sep in words[0] or shutil.which(words[0]) is not None)


def workloads(
    models: Sequence[str], batch_sizes: Sequence[int], options: dict[str, Any]
) -> list[Workload]:
    """Return a workload for each model and batch size (empty: the model's default).

    ``options`` are the other fields of Workload. Raises UsageError for an unknown name.
    """
    try:
        return [
            Workload(model=name, batch_size=size, **options)
            for name in models
            for default in [_default_batch_size(name, options)]
            for size in batch_sizes or [default]
        ]
    except UnsupportedError as error:
        raise UsageError(str(error)) from None


def _default_batch_size(name: str, options: dict[str, Any]) -> int:
    model = find(name)
    if not is_implemented(name, options["framework"]):
        raise UnsupportedError(
            f"{name} is not implemented in {options['framework']}; see tbd-trace models"
        )
    return model.variant(options["variant"], options["framework"]).batch_size(options["scale"])


def usual_framework(models: Sequence[str]) -> str:
    """Return the default framework of some models: the first in FRAMEWORKS that has them all."""
    # Unknown names get a better error later, with the nearest known name.
    known = [name for name in models if name in NAMES]
    candidates = (f for f in FRAMEWORKS if all(is_implemented(name, f) for name in known))
    return next(candidates, FRAMEWORKS[0])


def suite(framework: str) -> list[str]:
    """Return the models implemented in a framework; raise UsageError if there are none."""
    names = [name for name in NAMES if is_implemented(name, framework)]
    if not names:
        raise UsageError(f"no model is implemented in {framework}; see tbd-trace models")
    return names


def batch_sizes(text: str | None) -> list[int]:
    """Parse a list such as ``4,8,16``; raise UsageError unless all are integers above 0."""
    sizes = []
    for part in text.split(",") if text is not None else []:
        if not part.strip().isdecimal() or int(part) == 0:
            raise UsageError(f"--batch-size {text!r}: write whole numbers above 0, such as 4,8,16")
        sizes.append(int(part))
    return sizes


def places(
    targets: Sequence[Workload | Command], output: Path | None, *, several: bool
) -> list[Path]:
    """Return the capture directory of each target.

    ``output`` (default: the current directory) holds one directory per target if ``several``,
    otherwise it is the capture directory itself.
    """
    if output is not None and not several:
        return [output]
    return [(output or Path()) / target.title() for target in targets]
