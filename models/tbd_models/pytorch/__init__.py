"""Prepare PyTorch for the workloads."""

from __future__ import annotations

from tbd_models.definition import UnsupportedError
from tbd_models.settings import Settings


def prepare(settings: Settings) -> None:
    """Check the settings before the framework is imported; raise UnsupportedError if unsuitable."""
    if settings.execution not in ("auto", "eager"):
        raise UnsupportedError(
            f"the PyTorch workloads run operation by operation, not as {settings.execution}; "
            "use --execution eager"
        )
