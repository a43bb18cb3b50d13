"""Run a PyTorch program with a change, and report losses, modules and files written elsewhere."""

from __future__ import annotations

import atexit
import os
import sys
from contextlib import suppress
from typing import Any

import torch

from tbd_models.instrument.first_process import is_recorded
from tbd_models.instrument.progress import before_done
from tbd_models.instrument.trial_request import TrialRequest
from tbd_models.json_file import write_json
from tbd_models.trial import changes_pytorch
from tbd_models.trial.shared_imports import SharedImports

_MOST_LOSSES = 1000
_MOST_FILES = 20
# What frameworks write for themselves.
_USUAL = ("/dev/", "/proc/", "/sys/", "/tmp/torchinductor")


def install(request: TrialRequest) -> None:
    """Apply the change of a request, and report when nothing more is needed of the program."""
    _add_to_seeds(request.seed)
    if request.change is not None:
        changes_pytorch.apply_at_import(request.change)
    if is_recorded(request.report):
        _Report(request)


def _add_to_seeds(offset: int) -> None:
    original = torch.manual_seed

    def manual_seed(seed: int) -> Any:
        return original(seed + offset)

    torch.manual_seed = manual_seed
    if offset:
        original(offset)  # a program that sets no seed has always the same


class _Report:
    def __init__(self, request: TrialRequest) -> None:
        self._request = request
        self._inside = os.path.realpath(request.directory)
        self._own = os.path.realpath(request.report.parent)
        self._losses: list[Any] = []
        self._written: dict[str, None] = {}
        self._backward = torch.Tensor.backward
        torch.Tensor.backward = self._noted_backward()  # type: ignore[method-assign]
        self._imports = SharedImports()
        sys.addaudithook(self._note_file)
        before_done.append(self._write)
        atexit.register(self._write)

    def _noted_backward(self) -> Any:
        original, losses = self._backward, self._losses

        def backward(tensor: Any, *args: Any, **named: Any) -> None:
            if tensor.numel() == 1 and len(losses) < _MOST_LOSSES:
                losses.append(tensor.detach())
            original(tensor, *args, **named)

        return backward

    def _note_file(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open" or len(self._written) >= _MOST_FILES:
            return
        path, mode, _flags = arguments
        if not isinstance(path, str) or not isinstance(mode, str) or not set(mode) & set("wax+"):
            return
        # A link leads out of the directory.
        whole = os.path.realpath(path)
        if not whole.startswith((self._inside, *_USUAL, self._own)):
            self._written[whole] = None

    def _write(self) -> None:
        document = {
            "losses": [float(loss) for loss in self._losses],
            "written": list(self._written),
            "acted": changes_pytorch.acted,
            "modules": self._imports.modules(),
        }
        with suppress(OSError):
            write_json(self._request.report, document)
