"""What the PyTorch workloads share."""

from __future__ import annotations

from tbd_models.definition import UnsupportedError
from tbd_models.settings import Settings


def prepare(settings: Settings) -> None:
    """Do what must be done before the framework is imported.

    Raises:
        UnsupportedError: it cannot train as asked.
    """
    if settings.execution not in ("auto", "eager"):
        raise UnsupportedError(
            f"the PyTorch workloads run operation by operation, not as {settings.execution}; "
            "use --execution eager"
        )
