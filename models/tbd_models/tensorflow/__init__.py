"""Prepare TensorFlow for the workloads."""

from __future__ import annotations

import os

from tbd_models.settings import Settings


def prepare(settings: Settings) -> None:
    """Set environment variables before the framework is imported."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # hides notes about CPU instructions
