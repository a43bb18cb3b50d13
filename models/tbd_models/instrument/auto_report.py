"""Report the marks to ``tbd-trace collect``."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from tbd_models.instrument.first_process import is_recorded
from tbd_models.instrument.marks import REPORT_VARIABLE
from tbd_models.json_file import write_json


def report(**fields: Any) -> None:
    """Write a JSON object in the file of ``TBD_TRACE_AUTO``, if that is set.

    Args:
        fields: ``framework``, ``framework_version``, ``boundary`` (what ends iterations),
            ``model`` (whose layers are marked), ``problem`` (why something is not marked) and
            ``steps``, how many a training had that ended before it was marked.
    """
    path = _path()
    if path is None:
        return
    with suppress(OSError):  # a full disk must not stop the training
        write_json(path, fields)


def change_report(**fields: Any) -> None:
    """Change fields of the report, and keep the others."""
    path, known = _path(), {}
    if path is not None:
        with suppress(OSError):  # none yet
            known = json.loads(path.read_text(encoding="utf-8"))
        report(**known | fields)


def _path() -> Path | None:
    named = os.environ.get(REPORT_VARIABLE)
    return Path(named) if named and is_recorded(named) else None
