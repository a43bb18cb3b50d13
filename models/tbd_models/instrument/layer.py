"""Describe a layer for layers.json."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class Layer:
    """A layer; FLOP and feature map bytes are totals of the measured batch."""

    name: str
    type: str
    parameters: int
    weight_bytes: int
    gradient_bytes: int
    feature_map_bytes: int = 0
    forward_flop: int = 0
    backward_flop: int = 0
    precision: str | None = None
    ran: bool = False  # whether an operation outside its children was seen

    def entry(self, batch_size: int | None) -> dict[str, Any]:
        """Return the entry of layers.json; values per sample need the batch size."""
        entry: dict[str, Any] = {
            "name": self.name,
            "type": self.type,
            "parameters": self.parameters,
            "weight_bytes": self.weight_bytes,
            "gradient_bytes": self.gradient_bytes,
        }
        if batch_size is not None:
            entry["feature_map_bytes"] = self.feature_map_bytes // batch_size
            entry["forward_flop"] = self.forward_flop / batch_size
            entry["backward_flop"] = self.backward_flop / batch_size
        if self.precision is not None:
            entry["precision"] = self.precision
        return entry


def without_sample_sizes(entry: dict[str, Any]) -> dict[str, Any]:
    """Return an entry of layers.json without values per sample, for samples of unequal size."""
    per_sample = ("feature_map_bytes", "forward_flop", "backward_flop")
    return {key: value for key, value in entry.items() if key not in per_sample}
