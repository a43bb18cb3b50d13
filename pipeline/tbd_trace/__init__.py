"""Why is my DNN training slow? Profiler traces in, metrics out.

import tbd_trace

db = tbd_trace.open("report.sqlite")
db.query("kernel_summary")  # a polars frame
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tbd_trace.errors import (
    CannotAnswerError,
    InputError,
    StoreError,
    TbdTraceError,
    UsageError,
)
from tbd_trace.version import __version__

if TYPE_CHECKING:
    from os import PathLike

    from tbd_trace.api import Traces

__all__ = [
    "CannotAnswerError",
    "InputError",
    "StoreError",
    "TbdTraceError",
    "UsageError",
    "__version__",
    "instrument",
    "open",
]


def open(*traces: str | PathLike[str], db: str | PathLike[str] | None = None) -> Traces:
    """Open traces for queries.

    Args:
        traces: profiler files and capture directories (ingested on the fly into a cache that is
            keyed by their content), paths and URLs of archives, or ids and names of traces in
            ``db``; none means all of ``db``.
        db: a database made by ``tbd-trace ingest``, or path or URL of an archive; None means
            ``TBD_TRACE_DB`` or ``tbd-trace.duckdb`` in the working directory.

    Raises:
        InputError: a file is no profile, or damaged.
        StoreError: an archive is damaged, or a URL cannot be reached.
        UsageError: a name is unknown, or there is no database.
    """
    from tbd_trace.api import open_traces  # noqa: PLC0415  (keeps `import tbd_trace` fast)

    return open_traces(*traces, db=db)


def instrument(model: Any, optimizer: Any = None, *, batch_size: int | None = None) -> Any:
    """Mark a training loop for the profiler.

    Call it once before the loop, and run the loop under ``tbd-trace collect -- python train.py``.
    In a PyTorch loop nothing changes; iterations, phases and layers are marked. Of a Keras model in
    TensorFlow, layers are marked in all that is traced from then on, and what is returned is a
    callback that marks the iterations of ``fit``.

    Args:
        model: the ``torch.nn.Module`` whose forward pass the loop calls, or the ``keras.Model``.
        optimizer: the ``torch.optim.Optimizer`` whose step ends an iteration; Keras needs none.
        batch_size: samples per forward pass; operations per sample stay unknown without it, and in
            Keras.

    Returns:
        An object whose ``remove()`` takes the marks off again.

    Raises:
        ImportError: the framework or the package ``nvtx`` is missing.
        RuntimeError: TensorFlow works with several inter-operation threads already.
    """
    if any(base.__module__.split(".")[0] == "keras" for base in type(model).__mro__):
        from tbd_models.instrument.training_tensorflow import TrainingMarks  # noqa: PLC0415

        return TrainingMarks(model)
    from tbd_models.instrument.training_pytorch import instrument as marked  # noqa: PLC0415

    return marked(model, optimizer, batch_size=batch_size)
