"""Why is my DNN training slow? Profiler traces in, metrics out.

>>> import tbd_trace
>>> with tbd_trace.open("data/samples/synthetic_cnn") as traces:
...     traces.query("fp32_util").height  # one row per device and evidence
2
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

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

    from tbd_trace.analysis.checks.result import Findings
    from tbd_trace.analysis.diff import Comparison
    from tbd_trace.api import Traces
    from tbd_trace.present.drawn import Drawing
    from tbd_trace.query.result import Result

__all__ = [
    "CannotAnswerError",
    "Comparison",
    "Drawing",
    "Findings",
    "InputError",
    "Instrumented",
    "Result",
    "StoreError",
    "TbdTraceError",
    "Traces",
    "UsageError",
    "__version__",
    "instrument",
    "open",
]

# Imported on first use: DuckDB and the readers take 0.1 s, and `instrument` needs none of them.
_MODULES = {
    "Comparison": "tbd_trace.analysis.diff",
    "Drawing": "tbd_trace.present.drawn",
    "Findings": "tbd_trace.analysis.checks.result",
    "Result": "tbd_trace.query.result",
    "Traces": "tbd_trace.api",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415

    return getattr(import_module(_MODULES[name]), name)


class Instrumented(Protocol):
    """A model whose training loop is marked."""

    def remove(self) -> None:
        """Remove the marks."""


def open(*traces: str | PathLike[str], db: str | PathLike[str] | None = None) -> Traces:
    """Open traces for queries.

    Args:
        traces: profiler files and capture directories (ingested on the fly into a cache that is
            keyed by their content), paths and URLs of archives, or ids and names of traces in
            ``db``; none means all of ``db``.
        db: a database made by ``tbd-trace ingest``, or path or URL of an archive; None means
            ``TBD_TRACE_DB`` or ``tbd-trace.duckdb`` in the working directory.

    Raises:
        InputError: a file has an unsupported format, or is damaged.
        StoreError: an archive is damaged, or a URL cannot be reached.
        UsageError: a name is unknown, or there is no database.

    >>> with tbd_trace.open("data/samples/synthetic_cnn") as traces:
    ...     len(traces.trace_ids)  # a timeline and a file of counters
    2
    """
    from tbd_trace.api import open_traces  # noqa: PLC0415

    return open_traces(*traces, db=db)


def instrument(
    model: Any,
    optimizer: Any = None,
    *,
    batch_size: int | None = None,
    memory: bool | str | PathLike[str] = False,
    profiler: str | None = None,
    trace: str | PathLike[str] = "train.pt.trace.json.gz",
    warmup: int = 5,
    iterations: int = 12,
) -> Instrumented:
    """Mark a training loop for the profiler, or record its iterations or memory.

    Call it once before the loop, and run the loop under ``tbd-trace collect -- python train.py``.
    A PyTorch loop needs no other change: iterations, phases and layers are marked. For a Keras
    model, layers traced after this call are annotated; the returned callback marks iterations of
    ``fit()``.

    Args:
        model: the ``torch.nn.Module`` whose forward pass the loop calls, or the ``keras.Model``.
        optimizer: the ``torch.optim.Optimizer`` whose step ends an iteration; Keras needs none.
        batch_size: samples per forward pass. Without it, and with Keras, operations per sample are
            unknown.
        memory: file for the memory of the first three iterations by class and layer, which become
            slower (PyTorch; no profiler needed); True: ``TBD_TRACE_MEMORY`` or ``memory.jsonl``.
        profiler: ``torch`` records iterations with torch.profiler (PyTorch).
        trace: the file that it writes.
        warmup: iterations before the recorded ones.
        iterations: iterations that it records.

    Returns:
        An object whose ``remove()`` removes the marks; for Keras also a callback for ``fit()``.

    Raises:
        ImportError: the framework or the package ``nvtx`` is missing.
        RuntimeError: TensorFlow already uses several inter-operation threads.
        ValueError: ``memory`` or ``profiler`` for Keras, PyTorch without ``memory`` and optimizer.
    """
    from tbd_models import auto  # noqa: PLC0415 - only training programs need it

    auto.stand_down()
    if any(base.__module__.split(".")[0] == "keras" for base in type(model).__mro__):
        if memory or profiler:
            raise ValueError("memory and profiler are for PyTorch models only")
        from tbd_models.instrument.training_tensorflow import TrainingMarks  # noqa: PLC0415

        marks: Instrumented = TrainingMarks(model)
        return marks
    from tbd_models.instrument.training_pytorch import instrument as marked  # noqa: PLC0415

    return marked(
        model,
        optimizer,
        batch_size=batch_size,
        memory=memory,
        profiler=profiler,
        trace=trace,
        warmup=warmup,
        iterations=iterations,
    )
