"""Sentences of a verdict on memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tbd_trace.why.memory_diagnosis import FailedRequest, Line, MemoryBase

_TITLES = {
    "weight": "weights",
    "weight_gradient": "gradients",
    "optimizer_state": "optimizer state",
    "optimizer_temporary": "optimizer temporaries",
    "feature_map": "feature maps",
    "activation_gradient": "gradients of feature maps",
    "workspace": "workspace",
    "temporary": "temporaries",
    "buffer": "buffers",
    "input": "inputs",
    "communication": "communication",
}
BEFORE, UNKNOWN = "before_recording", "unknown"
CLASSES = (*_TITLES, BEFORE, UNKNOWN)
"""Names of the parts of the memory."""
_LINES_SHOWN = 3
_LONGEST = 40  # characters of a layer or line
_UNITS = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
_WHEN = {"failure": "at the failure", "peak": "at the peak", "end": "at the end"}
_PAGE = 20 << 20  # bytes that an expandable segment grows by
_UNEVEN = 1.25  # times the mean of the devices, from which a device holds more than its share
_RECORD = (
    "record it with `torch.cuda.memory._record_memory_history()` before the model is built, and "
    "`torch.cuda.memory._dump_snapshot(FILE)` when memory is exhausted"
)


def size(number: float) -> str:
    """Format bytes with two decimals, one from 100 on, such as ``4.94 GiB``."""
    for divisor, unit in _UNITS:
        if abs(number) >= divisor:
            return f"{number / divisor:.{1 if abs(number) >= 100 * divisor else 2}f} {unit}"
    return f"{number:.0f} B"


def title(name: str) -> str:
    """Return a class of bytes in words."""
    return _TITLES.get(name, name.replace("_", " "))


def place(device_id: int | None) -> str:
    """Return a device in words."""
    return "the host" if device_id is None else f"device {device_id}"


def origin(rows: Sequence[Mapping[str, Any]], lines: Sequence[Line]) -> str:
    """Say where the bytes of a class come from: their age, likely class, and lines of code."""
    parts = []
    if rows[0]["class"] == UNKNOWN:
        parts.append(_age(rows))
    named = [
        f"{_shortened(line.line or line.layer or '')} {size(line.bytes)}"
        for line in lines
        if line.line or line.layer
    ]
    if named:
        more = " …" if len(named) > _LINES_SHOWN else ""
        parts.append(", ".join(named[:_LINES_SHOWN]) + more)
    known = rows[0]["evidence"]
    if known in ("frames and lifetime", "lifetime", "frames") and not rows[0]["likely"]:
        blocks = "" if named else f"{_blocks(rows)}, "
        parts.append(f"{blocks}inferred from {known}")
    elif not parts:
        parts.append(_blocks(rows))
    return "; ".join(parts)


def _shortened(name: str) -> str:
    return name if len(name) <= _LONGEST else f"…{name[1 - _LONGEST :]}"


def _age(rows: Sequence[Mapping[str, Any]]) -> str:
    row = rows[0]
    blocks = _blocks(rows)
    if row["moment"] == "end":
        age = f"{blocks} at the end of the recording"
    elif not row["is_older"]:
        age = f"{blocks} without evidence of a class"
    else:
        age = f"live before recording, {'never' if row['is_kept'] else 'later'} freed, {blocks}"
    if row["likely"] is None:
        return age
    if not row["is_older"]:
        age = f"{blocks} made by code that builds or moves modules"
    return f"{age}: probably {row['likely']} (inferred from {row['evidence']})"


def _blocks(rows: Iterable[Mapping[str, Any]]) -> str:
    number = sum(int(row["allocations"]) for row in rows)
    return "1 block" if number == 1 else f"{number:,} blocks"


def asked(failed: FailedRequest) -> str:
    """Return the bytes of a failed request, and the free bytes of the device."""
    number = failed.requested_bytes
    wanted = "bytes of the request not recorded" if number is None else f"{size(number)} asked"
    if failed.device_free_bytes is None:
        return f"{wanted}, free bytes of the device not recorded"
    return f"{wanted}, {size(failed.device_free_bytes)} free on the device"


def failure(failed: FailedRequest, device_id: int | None) -> str:
    """Describe a failed request with all bytes that are known."""
    by = f" by {failed.line}" if failed.line else ""
    parts = [f"request{by} on {place(device_id)}: {asked(failed)}"]
    if failed.unused_bytes is not None and failed.held_bytes is not None:
        parts.append(
            f"{size(failed.held_bytes)} held by the allocator, {size(failed.unused_bytes)} of it "
            "reserved but unused"
        )
    if failed.largest_free_bytes is not None:
        parts.append(f"largest free block {size(failed.largest_free_bytes)}")
    if failed.failures > 1:
        parts.append(f"the last of {failed.failures} failed requests")
    return "; ".join(parts)


def held_by_devices(
    held: Mapping[int, int], first: int | None, *, split: bool = False
) -> str | None:
    """Compare the bytes that the allocators of devices hold; None for one device.

    Args:
        held: bytes by device.
        first: the device that the verdict is about.
        split: True if torch.nn.DataParallel runs the code.
    """
    if len(held) < 2:
        return None
    ordered = sorted(held.items(), key=lambda item: -item[1])
    named = [f"{number / 2**30:.1f} GiB on device {device}" for device, number in ordered]
    mean = sum(held.values()) / len(held)
    text = f"held by the allocators: {', '.join(named)}"
    own = 0 if first is None else held.get(first, 0)
    if own > _UNEVEN * mean:
        text += f"; device {first} holds {own / mean:.1f} times the mean"
        text += "; torch.nn.DataParallel divides a batch by samples, not by bytes" if split else ""
    return text


def fragmentation(state: Mapping[str, Any], private: int) -> str | None:
    """Say which part of the held memory is free, and what expandable segments would return."""
    inside, held, whole = (
        state[key] for key in ("free_inside_bytes", "reserved_bytes", "free_segment_bytes")
    )
    if not held or not (inside or private):
        return None
    text = (
        f"{_WHEN[state['moment']]} {size(inside)} of {size(held)} held "
        f"({100 * inside / held:.1f} %) are free in segments with live blocks"
    )
    if whole:
        text += f", {size(whole)} in others"
    if state["is_expandable"]:
        text += "; segments are expandable already"
    elif inside > _PAGE:
        pages = state["whole_page_bytes"]
        text += (
            f"; expandable segments would return at most {size(max(inside - _PAGE, pages))}, "
            f"{size(pages)} of it in whole pages"
        )
    if private:
        text += f"; {size(private)} belong to private pools, which other code cannot use"
    return text


def history(base: MemoryBase, entries: int, segments: int) -> list[str]:
    """Say what the history of a snapshot lacks."""
    if base.moment == "plan":
        return [
            "sizes are those of the compiler's plan; several values share an allocation, which has "
            "the class of the largest"
        ]
    if base.moment == "end":
        count = {0: "no entry", 1: "one entry"}.get(entries, f"{entries:,} entries")
        shown = "1 segment shows" if segments == 1 else f"{segments:,} segments show"
        return [
            f"the history has {count} and no allocation: the peak, a failed request and lifetimes "
            f"are not recorded; {shown} the live bytes at the end; {_RECORD}"
        ]
    sentences = []
    if entries == 1:
        sentences.append(f"the history has one entry: the peak is that of one event; {_RECORD}")
    if base.start_bytes:
        sentences.append(
            f"{size(base.start_bytes)} were live before the first of {base.events:,} allocations "
            "and releases: an earlier peak is not recorded"
        )
    if base.sequence is not None and base.timestamp_ns is None and base.sequence >= 0:
        sentences.append("the history has no times; its order is that of the file")
    return sentences
