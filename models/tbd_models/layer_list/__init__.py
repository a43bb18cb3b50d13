"""Layers of given times and gradients: a stand-in for a model, to measure communication."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path

from tbd_models.definition import Model, UnsupportedError, Variant

COLUMNS = ("name", "fwd_s", "bwd_s", "grad_bytes")
_LONGEST_S = 60.0


@dataclass(frozen=True, slots=True)
class TimedLayer:
    """A layer that sleeps in place of computing."""

    name: str
    fwd_s: float
    bwd_s: float
    grad_bytes: int  # a multiple of 4; 0 for a layer without weights


def read_layers(path: Path) -> tuple[TimedLayer, ...]:
    """Read a CSV file of layers in forward order, with columns as in ``COLUMNS``.

    Raises UnsupportedError for another content.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError) as error:
        raise UnsupportedError(f"{path}: cannot be read ({error})") from error
    layers = tuple(_layer(path, line, row) for line, row in enumerate(rows, 2))
    if not any(layer.grad_bytes for layer in layers):
        raise UnsupportedError(f"{path}: no layer has gradients; give one a grad_bytes above 0")
    return layers


def _layer(path: Path, line: int, row: dict[str, str]) -> TimedLayer:
    try:
        layer = TimedLayer(
            str(row["name"]), float(row["fwd_s"]), float(row["bwd_s"]), int(row["grad_bytes"])
        )
    except (KeyError, TypeError, ValueError):
        raise UnsupportedError(
            f"{path}: line {line} is not a layer; write the columns {','.join(COLUMNS)}"
        ) from None
    times = (layer.fwd_s, layer.bwd_s)
    if not all(math.isfinite(time) and 0 <= time <= _LONGEST_S for time in times):
        raise UnsupportedError(f"{path}: line {line}: times are between 0 and {_LONGEST_S:g} s")
    if layer.grad_bytes < 0 or layer.grad_bytes % 4:
        raise UnsupportedError(f"{path}: line {line}: grad_bytes is a multiple of 4 (float32)")
    return layer


MODEL = Model(
    name="layer_list",
    title="Layer list",
    application="measurement of communication",
    frameworks=("pytorch",),
    layers="as listed",
    dominant_layer="as listed",
    dominant_types=(),
    in_suite=False,
    batch_definition="rows",
    throughput_unit="rows/s",
    variants=(
        Variant(
            name="listed",
            dimensions=(),
            small=(),
            dataset="none",
            default_batch_size=1,
            sweep=(),
            optimizer="none",
            parameters=0,
            forward_flop=0,
            training_flop=0,
            source="the file of --layers",
            small_batch_size=1,
        ),
    ),
)
