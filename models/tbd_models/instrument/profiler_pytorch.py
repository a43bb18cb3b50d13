"""Record a window of iterations with torch.profiler."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import torch
from torch.autograd.profiler import record_function
from torch.profiler import ProfilerActivity, profile

from tbd_models.instrument.trace_file import compress


class TraceRecorder:
    """Record one trace of torch.profiler between ``start`` and ``stop``.

    Operators with the shapes of their inputs, calls of modules and, on an accelerator, its work are
    recorded; with ``memory`` also allocations.
    """

    def __init__(self, path: Path, device: str, *, memory: bool = False) -> None:
        self._path = path
        self._device = device  # type of the device, such as cuda
        self._memory = memory
        self._profiler: Any = None

    @property
    def is_recording(self) -> bool:
        """True between ``start`` and ``stop``."""
        return self._profiler is not None

    def start(self) -> None:
        """Start the profiler."""
        activities = [ProfilerActivity.CPU]
        if self._device != "cpu":
            activities.append(getattr(ProfilerActivity, self._device.upper()))
        profiler = profile(
            activities=activities,
            record_shapes=True,
            # Calls of modules are recorded as frames of Python; with_modules alone records none.
            with_stack=True,
            profile_memory=self._memory,
        )
        if self._device == "cuda":
            torch.cuda.synchronize()  # work of earlier iterations would seem to have no launch
        profiler.start()
        profiler.add_metadata("torch_version", torch.__version__)
        self._profiler = profiler

    def stop(self) -> None:
        """Stop the profiler and write the trace."""
        profiler = self._end()
        beside = self._path.with_name(f".{os.getpid()}.{self._path.name}")
        if self._path.suffix == ".gz":
            # PyTorch compresses at the highest level, which takes minutes.
            plain = beside.with_suffix("")
            profiler.export_chrome_trace(str(plain))
            compress(plain, beside)
        else:
            profiler.export_chrome_trace(str(beside))
        beside.replace(self._path)

    def discard(self) -> None:
        """Stop the profiler and write nothing."""
        self._end()

    def _end(self) -> Any:
        profiler, self._profiler = self._profiler, None
        profiler.stop()
        return profiler

    def describe(self) -> dict[str, Any]:
        """Return the versions and the device for the capture."""
        return {
            "framework": "pytorch",
            "framework_version": torch.__version__,
            "profiler_version": torch.__version__,
            "device": self._device,
            "gpu": torch.cuda.get_device_name() if self._device == "cuda" else None,
        }


class RecordFunctionMarks:
    """Marks as ranges of ``record_function``; none while the recorder is idle."""

    def __init__(self, recorder: TraceRecorder) -> None:
        self._recorder = recorder
        self._threads = threading.local()

    def push(self, text: str) -> None:
        self._open().append(self.start(text))

    def pop(self) -> None:
        self.end(self._open().pop())

    def start(self, text: str) -> Any:
        if not self._recorder.is_recording:
            return None
        started = record_function(text)
        started.__enter__()
        return started

    def end(self, handle: Any) -> None:
        # A range that is open at the end of the recording is marked as unfinished.
        if handle is not None and self._recorder.is_recording:
            handle.__exit__(None, None, None)

    def end_with(self, handle: Any, future: Any) -> Any:
        """Return a future of the same value at whose completion the range ends, on any thread."""
        # The profiler ignores the end of a range on a thread that it does not know.
        return future if handle is None else handle._call_end_callbacks_on_future(future)

    def _open(self) -> list[Any]:
        if not hasattr(self._threads, "open"):
            self._threads.open = []
        ranges: list[Any] = self._threads.open
        return ranges
