"""A workload whose step runs out of memory: run in an interpreter that has TensorFlow.

Usage: python tensorflow_out_of_memory.py REPORT
"""

from __future__ import annotations

import sys
from typing import Any

import tensorflow as tf

from tbd_models import __main__ as program
from tbd_models.tensorflow.trainer import TensorFlowTrainer


def fail(*_: Any) -> None:
    raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor with shape[9]")


if __name__ == "__main__":
    TensorFlowTrainer.step = fail
    options = ["--framework", "tensorflow", "--device", "cpu", "--scale", "small"]
    sys.argv = ["tbd_models", "run", "seq2seq", *options, "--report", sys.argv[1]]
    sys.exit(program.main())
