"""Turn ``pg_config`` and ``pg_status`` of a dump into rows of ``flight_group``.

``pg_config`` has the names of process groups, ``pg_status`` their local ids. Entries have both, and
join them. Groups without entries are joined by order if numbers of groups agree: both names and ids
are given in the order in which the program creates the groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tbd_trace.sources.flight_recorder.records import group_of

_LARGEST = 1 << 31


def group_rows(
    document: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return a row for each process group of a dump."""
    configured = _configured(document.get("pg_config"))
    status = _by_id(document.get("pg_status"))
    names: dict[int, str] = {}
    for entry in entries:
        name, local_id = group_of(entry)[0], entry.get("pg_id")
        if name is not None and isinstance(local_id, int):
            names[local_id] = name
    by_order = _joined_by_order(list(configured), sorted(status), names)
    rows = []
    for local_id in sorted(status.keys() | names.keys()):
        name = names.get(local_id) or by_order.get(local_id)
        evidence = "entries" if local_id in names else "order" if name else None
        known = configured.pop(name, {}) if name is not None else {}
        counters = status.get(local_id, {})
        rows.append({"local_group_id": local_id, "evidence": evidence, **counters, **known}
                    | {"group_name": name})  # fmt: skip
    return rows + [{"group_name": name, **known} for name, known in configured.items()]


def _configured(groups: object) -> dict[str, dict[str, Any]]:
    if not isinstance(groups, dict):
        return {}
    return {
        str(group.get("name", key)): {
            "group_description": _text(group.get("desc")),
            "ranks": _text(group.get("ranks")),
        }
        for key, group in groups.items()
        if isinstance(group, dict)
    }


def _by_id(status: object) -> dict[int, dict[str, int | None]]:
    if not isinstance(status, dict):
        return {}
    return {
        int(key): {
            name: _whole(counters.get(f"{name}_collective"))
            for name in ("last_enqueued", "last_started", "last_completed")
        }
        for key, counters in status.items()
        if str(key).isdecimal() and int(key) < _LARGEST and isinstance(counters, dict)
    }


def _joined_by_order(
    names: Sequence[str], local_ids: Sequence[int], known: Mapping[int, str]
) -> dict[int, str]:
    if len(names) != len(local_ids) or not all(name.isdecimal() for name in names):
        return {}
    pairs = dict(zip(local_ids, sorted(names, key=int), strict=True))
    agree = all(pairs.get(local_id) == name for local_id, name in known.items())
    return pairs if agree else {}


def _whole(value: object) -> int | None:
    # Text in JSON; -1 before the first one.
    text = str(value)
    return int(text) if text.isdecimal() and len(text) < 19 else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
