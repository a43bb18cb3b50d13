"""``tbd-trace models --check``: recount the workloads with counters that are not this project's."""

# polars and the workloads are imported when the command runs, so that `--help` starts fast.
# ruff: noqa: PLC0415
from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tbd_models.definition import Model

_FIELDS = ("parameters", "forward_flop", "training_flop")
_TIMEOUT_S = 1800


def recounted(models: list[Model], framework: str, python: str) -> Iterator[dict[str, Any]]:
    """Yield a row per variant of each model, counted in the interpreter of a framework.

    Columns are the declared numbers (``parameters``, ``forward_flop``, ``training_flop``), those
    of the counter (``counted_*``), and ``result``: ``equal``, ``differs`` or ``failed``.
    """
    counts = {}
    reason = ""
    try:
        for row in _counts([model.name for model in models], framework, python):
            counts[row.pop("model"), row.pop("variant")] = row
    except (OSError, RuntimeError, subprocess.TimeoutExpired) as error:
        reason = str(error)
    for model in models:
        for variant in model.variants_in(framework):
            declared = {
                "parameters": variant.parameters_in(framework),
                "forward_flop": variant.forward_flop,
                "training_flop": variant.training_flop,
            }
            counted = counts.get((model.name, variant.name), {})
            row = {"model": model.name, "framework": framework, "variant": variant.name}
            row |= {"counter": counted.get("counter")} | declared
            row |= {f"counted_{name}": counted.get(name) for name in _FIELDS}
            differing = [
                name for name in _FIELDS if counted.get(name) not in (None, declared[name])
            ]
            result = "differs" if differing else "equal" if counted else "failed"
            why = (
                ", ".join(differing) or counted.get("uncounted") or (reason if not counted else "")
            )
            yield row | {"result": result, "note": why or None}


def _counts(names: list[str], framework: str, python: str) -> Iterator[dict[str, Any]]:
    from tbd_collectors import workload

    arguments = [python, "-m", "tbd_models", "count", *names, "--framework", framework]
    with workload.importable() as variables:
        done = subprocess.run(
            arguments,
            env=os.environ | variables,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    for line in done.stdout.splitlines():
        if line.startswith("{"):  # frameworks may print before
            yield json.loads(line)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise RuntimeError(f"{python} exited with {done.returncode}: {last}")
