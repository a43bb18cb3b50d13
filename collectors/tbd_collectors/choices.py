"""Allowed values of the options of ``tbd-trace collect``.

This module imports nothing else of the collectors: every command of the command line loads it.
"""

from __future__ import annotations

from enum import StrEnum


class Framework(StrEnum):
    """Frameworks of the suite."""

    PYTORCH = "pytorch"
    TENSORFLOW = "tensorflow"
    MXNET = "mxnet"


class Device(StrEnum):
    """Device to train on; ``auto`` is ``cuda`` if there is a GPU, else ``cpu``."""

    AUTO = "auto"
    CUDA = "cuda"
    CPU = "cpu"


class Scale(StrEnum):
    """Size of the model."""

    FULL = "full"
    SMALL = "small"


class Precision(StrEnum):
    """Arithmetic of the training."""

    FP32 = "fp32"
    TF32 = "tf32"
    MIXED = "mixed"


class Execution(StrEnum):
    """How a framework runs a model."""

    AUTO = "auto"
    EAGER = "eager"
    GRAPH = "graph"
    XLA = "xla"


class Input(StrEnum):
    """Where the samples come from."""

    SYNTHETIC = "synthetic"
    DECODE = "decode"


class Scheme(StrEnum):
    """How ranks exchange gradients."""

    DDP = "ddp"
    FSDP = "fsdp"
    PS = "ps"
    P3 = "p3"
    SERIAL = "serial"
    DIST_SYNC = "dist_sync"
