"""Names of runs for tables, plots and pages, instead of trace ids."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import takewhile

from tbd_trace.present.names import shorten

_WIDTH = 36  # characters of a name, which leave room for a device
_ID_DIGITS = 4  # of the trace id, where names are equal
_ENDINGS = re.compile(
    r"(?i)(?:\.gz|\.sqlite|\.csv|\.json|\.jsonl|\.pickle|\.pkl|\.log|\.txt|\.(?:nsys|ncu)-rep"
    r"|\.qdrep|\.nvvp|\.nvprof|\.pt\.trace)+$"
)


def run_names(names: Mapping[str, str]) -> dict[str, str]:
    """Return short and different names of traces by trace id.

    File endings are left out, and the file of a capture if no other file of it is among the traces.
    Equal names end in the first digits of the trace id.

    Args:
        names: names of the traces by trace id, as in ``trace.name``.
    """
    captures = Counter(name.rpartition("/")[0] for name in names.values())
    stems = {}
    for trace_id, name in names.items():
        capture, _, file = name.rpartition("/")
        is_only = capture and captures[capture] == 1
        stems[trace_id] = capture if is_only else _ENDINGS.sub("", name) or file
    shown = distinct_names(stems)
    for digits in (_ID_DIGITS, None):
        times = Counter(shown.values())
        shown = {
            trace_id: name if times[name] == 1 else f"{name} {trace_id[:digits]}"
            for trace_id, name in shown.items()
        }
    return shown


def distinct_names(names: Mapping[str, str]) -> dict[str, str]:
    """Remove the common parts of names that would be equal when shortened."""
    alike: dict[str, list[str]] = defaultdict(list)
    for key, name in names.items():
        alike[shorten(name, _WIDTH)].append(key)
    shortened_names = dict(names)
    for keys in alike.values():
        if len(keys) > 1:
            shortened_names |= _without_common({key: names[key] for key in keys})
    return shortened_names


def _without_common(names: Mapping[str, str]) -> dict[str, str]:
    values = list(names.values())
    front = len(_common(values))
    back = len(_common([name[front:][::-1] for name in values]))
    before, after = "…" if front else "", "…" if back else ""
    return {key: f"{before}{name[front : len(name) - back]}{after}" for key, name in names.items()}


def _common(names: Sequence[str]) -> str:
    # The common prefix, without a partial word at its end.
    same = takewhile(lambda chars: len(set(chars)) == 1, zip(*names, strict=False))
    return re.sub(r"[A-Za-z0-9]+$", "", "".join(chars[0] for chars in same))
