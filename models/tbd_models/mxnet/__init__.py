"""What the MXNet workloads share."""

from __future__ import annotations

import os
import warnings

import numpy as np

from tbd_models.definition import UnsupportedError
from tbd_models.settings import Settings

NAIVE, HYBRIDISED = "naive engine", "hybridised"
_ENGINE = "MXNET_ENGINE_TYPE"


def prepare(settings: Settings) -> None:
    """Choose the engine, which MXNet does when it is imported.

    Raises:
        UnsupportedError: it cannot train as asked.
    """
    if execution(settings) == NAIVE:
        os.environ[_ENGINE] = "NaiveEngine"
    else:
        os.environ.pop(_ENGINE, None)
    _restore_numpy_names()


def execution(settings: Settings) -> str:
    """Return how the model runs: operation by operation, or hybridised, as a whole.

    The default engine runs operations in threads of its own, behind the program's back: marks
    would tell when an operation was asked for, and a hybridised model runs no layers. So with marks
    the naive engine runs each operation where it is called.

    Raises:
        UnsupportedError: it cannot run as asked.
    """
    if settings.execution == "xla":
        raise UnsupportedError("MXNet has no XLA; use --execution auto")
    if settings.execution == "graph" and settings.marked:
        raise UnsupportedError(
            "a hybridised MXNet model runs no layers that could be marked; use --execution auto, "
            "which hybridises it where nothing is marked"
        )
    eager = settings.marked or settings.execution == "eager"
    return NAIVE if eager else HYBRIDISED


def _restore_numpy_names() -> None:
    """Restore what MXNet 1.9.1 asks NumPy for and NumPy 1.24 has no more."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy 1.23 has them, and warns
        for kind in (bool, int, float, object):
            if not hasattr(np, kind.__name__):
                setattr(np, kind.__name__, kind)
