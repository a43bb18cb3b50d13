"""Colours of series, told apart with every kind of colour vision and in print."""

from __future__ import annotations

from collections.abc import Sequence

from tbd_trace.present.series import Series

# Okabe and Ito's palette. Black is kept for text.
_PALETTE = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442", "#999999")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_HATCHES = ("", "///", "...")  # where there are more series than colours
HEAT = "Blues"
"""Colour map of shares: light is little, also in black and white."""
_IDLE = "#BBBBBB"
SHADE = "#0072B2"
"""What lies behind a stretch that is told from the rest."""


def colours(series: Sequence[Series]) -> list[str]:
    """Return the colour of each series."""
    return [
        _IDLE if one.label == "idle" else _PALETTE[one.colour % len(_PALETTE)] for one in series
    ]


def hatch(one: Series) -> str:
    """Return the hatching of a series, empty as long as there are colours enough."""
    return _HATCHES[one.colour // len(_PALETTE) % len(_HATCHES)]


def marker(one: Series) -> str:
    """Return the mark of a series' points."""
    return _MARKERS[one.colour % len(_MARKERS)]
