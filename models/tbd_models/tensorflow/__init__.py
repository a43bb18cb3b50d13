"""Prepare TensorFlow for the workloads."""

from __future__ import annotations

import os

from tbd_models.settings import Settings, refuse_pytorch_options


def prepare(settings: Settings) -> None:
    """Set environment variables before the framework is imported, after checking the settings."""
    refuse_pytorch_options(settings, "TensorFlow")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # hides notes about CPU instructions
