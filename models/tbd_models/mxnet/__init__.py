"""Prepare MXNet for the workloads."""

from __future__ import annotations

import os
import warnings

import numpy as np

from tbd_models.definition import UnsupportedError
from tbd_models.mxnet import shared_store
from tbd_models.settings import Settings, refuse_pytorch_options

NAIVE, HYBRIDISED, EAGER = "naive engine", "hybridised", "eager"
_ENGINE = "MXNET_ENGINE_TYPE"


def prepare(settings: Settings) -> None:
    """Select the engine before MXNet is imported; raise UnsupportedError for bad settings."""
    refuse_pytorch_options(settings, "MXNet")
    if execution(settings) == NAIVE:
        os.environ[_ENGINE] = "NaiveEngine"
    else:
        os.environ.pop(_ENGINE, None)
    restore_numpy_names()
    if shared_store.world_size(settings) > 1:
        shared_store.join(settings)


def execution(settings: Settings) -> str:
    """Return how to run the model: eagerly on the naive engine, or hybridised.

    Raises UnsupportedError if the settings cannot be combined.
    """
    if settings.execution == "xla":
        raise UnsupportedError("MXNet has no XLA; use --execution auto")
    if settings.execution == "graph" and settings.marked:
        raise UnsupportedError(
            "a hybridised MXNet model does not call its layers, so they cannot be marked; use "
            "--execution auto, which hybridises only unmarked models"
        )
    # The default engine runs operations later on its own threads: marks would show when an
    # operation was queued. The naive engine runs it within the call.
    eager = settings.marked or settings.execution == "eager"
    return NAIVE if eager else HYBRIDISED


def restore_numpy_names() -> None:
    """Restore np.bool and others, which MXNet 1.9.1 uses and NumPy 1.24 removed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy 1.23 still has them and warns
        for kind in (bool, int, float, object):
            if not hasattr(np, kind.__name__):
                setattr(np, kind.__name__, kind)
