"""Colours, markers and hatches of series."""

from __future__ import annotations

from collections.abc import Sequence

from tbd_trace.present.series import Series

# The palette of Okabe and Ito, which is distinct for all kinds of colour vision
# (https://jfly.uni-koeln.de/color/). Black is kept for text.
_PALETTE = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442", "#999999")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_HATCHES = ("", "///", "...")  # distinguish more series than there are colours
HEAT = "Blues"
"""Colour map of heat maps; darker is more, also when printed in grey."""
_IDLE = "#BBBBBB"
SHADE = "#0072B2"
"""Background of the steady state."""


def colours(all_series: Sequence[Series]) -> list[str]:
    """Return the colour of each series."""
    return [
        _IDLE if series.label in ("idle", "free") else _PALETTE[series.colour % len(_PALETTE)]
        for series in all_series
    ]


def hatch(series: Series) -> str:
    """Return the hatch of a series, empty for the first series of each colour."""
    return _HATCHES[series.colour // len(_PALETTE) % len(_HATCHES)]


def marker(series: Series) -> str:
    """Return the marker of a series."""
    return _MARKERS[series.colour % len(_MARKERS)]
