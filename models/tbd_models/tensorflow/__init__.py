"""What the TensorFlow workloads share."""

from __future__ import annotations

import os

from tbd_models.settings import Settings


def prepare(settings: Settings) -> None:
    """Do what must be done before the framework is imported."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # no tales of what the CPU could do
