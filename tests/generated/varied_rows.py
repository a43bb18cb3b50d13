"""Variations of made traces: cells without a value or with that of another row, missing rows.

Real exports lack values in any combination, and their rows refer to rows that were not recorded.
"""

from __future__ import annotations

import re
from functools import cache
from random import Random

from made_trace import MadeTrace, Row
from tbd_trace import resources

_LOST = 0.02  # share of the rows
_WITHOUT_VALUE = 0.02  # share of the cells
_OF_ANOTHER_ROW = 0.03
_LATER = 0.05  # share of the rows, by 10 ns
_DESCRIBING = {"trace", "device", "process", "layer_definition", "job_rank"}  # none is lost
_REQUIRED = re.compile(r"^ +(\w+) +\S+ NOT NULL", re.M)


def varied(traces: MadeTrace, seed: int) -> MadeTrace:
    """Return the traces with random variations; keys stay."""
    dice, made = Random(seed), MadeTrace()
    for table, rows in traces.rows.items():
        kept = [row for row in rows if table in _DESCRIBING or dice.random() >= _LOST]
        made.rows[table] = [_varied(dice, table, row, rows) for row in kept]
    return made


def _varied(dice: Random, table: str, row: Row, rows: list[Row]) -> Row:
    later, found = 10 if dice.random() < _LATER else 0, dict(row)
    for name in sorted(row):
        chance, other = dice.random(), dice.choice(rows)
        if name in {"trace_id", "capture", "format", "duration_ns", f"{table}_id"}:
            continue
        if name.endswith("_ns"):
            found[name] = row[name] and row[name] + later
        elif chance < _WITHOUT_VALUE:
            found[name] = row[name] if name in _required(table) else None
        elif chance < _WITHOUT_VALUE + _OF_ANOTHER_ROW:
            found[name] = other.get(name)
    return found


@cache
def _required(table: str) -> frozenset[str]:
    (file,) = (resources.queries() / "canonical").rglob(f"{table}.sql")
    return frozenset(_REQUIRED.findall(file.read_text(encoding="utf-8")))
