"""From the words of a command line to what is collected, and where it goes."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tbd_collectors.collection_request import Command, Workload
from tbd_models.definition import UnsupportedError
from tbd_models.registry import FRAMEWORKS, NAMES, find, is_implemented
from tbd_trace.errors import UsageError


def is_command(words: Sequence[str]) -> bool:
    """Tell whether words are a command rather than the name of a model."""
    if len(words) != 1:
        return bool(words)
    return words[0] not in NAMES and shutil.which(words[0]) is not None


def workloads(
    models: Sequence[str], batch_sizes: Sequence[int], options: dict[str, Any]
) -> list[Workload]:
    """Return the workloads of some models at some batch sizes.

    Args:
        models: names.
        batch_sizes: none means each model's default.
        options: the other fields of a workload.

    Raises:
        UsageError: a model, variant or framework is unknown; names the nearest.
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
    return model.variant(options["variant"]).batch_size(options["scale"])


def usual_framework(models: Sequence[str]) -> str:
    """Return the framework where nobody asks for one: PyTorch where it has the models."""
    known = [name for name in models if name in NAMES]
    having = (f for f in FRAMEWORKS if all(is_implemented(name, f) for name in known))
    return next(having, FRAMEWORKS[0])


def suite(framework: str) -> list[str]:
    """Return the models that a framework has.

    Raises:
        UsageError: it has none.
    """
    names = [name for name in NAMES if is_implemented(name, framework)]
    if not names:
        raise UsageError(f"no model is implemented in {framework}; see tbd-trace models")
    return names


def batch_sizes(text: str | None) -> list[int]:
    """Return the numbers in a list such as ``4,8,16``.

    Raises:
        UsageError: an entry is not a whole number above 0.
    """
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

    Args:
        targets: what is collected.
        output: where the user wants it; None means here.
        several: whether ``output`` is to hold a directory for each.
    """
    if output is not None and not several:
        return [output]
    return [(output or Path()) / target.title() for target in targets]
