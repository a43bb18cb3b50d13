"""Describe the GPUs of a trace, of NVIDIA or AMD."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

_NUMBERS = {
    "memory_bytes": ("totalGlobalMem",),
    "max_threads_per_block": ("maxThreadsPerBlock",),
    "sm_count": ("numSms",),
    "max_registers_per_block": ("regsPerBlock",),
    "max_registers_per_sm": ("regsPerMultiprocessor",),
    "max_shared_bytes_per_block": ("sharedMemPerBlock",),
    "max_shared_bytes_per_block_optin": ("sharedMemPerBlockOptin",),
    "max_shared_bytes_per_sm": ("sharedMemPerMultiprocessor", "maxSharedMemoryPerMultiProcessor"),
}
_AMD = re.compile(r"(?i)\b(?:amd|radeon|instinct|gfx\d)")
_AMD_WARP = 64

Row = dict[str, Any]


def is_rocm(header: Mapping[str, Any]) -> bool:
    """Return True if the header is that of a trace of AMD's GPUs."""
    if "roctracer_version" in header or any(str(key).startswith("hip_") for key in header):
        return True
    return any(
        _number(device, "warpSize") == _AMD_WARP or _AMD.search(str(device.get("name") or ""))
        for device in _properties(header)
    )


def device_rows(
    header: Mapping[str, Any], used: Collection[int], rocm: bool
) -> tuple[list[Row], list[str]]:
    """Return rows of ``device`` and notes.

    Args:
        used: devices of the GPU operations, which only ``rocm`` needs.
        rocm: True for AMD's GPUs, whose operations name agents, in another numbering than that of
            the properties.
    """
    described = [_row(device, rocm) for device in _properties(header)]
    described = [row for row in described if row["device_id"] is not None]
    if not rocm or not used:
        return described, []
    models = {tuple((k, v) for k, v in row.items() if k != "device_id") for row in described}
    if len(used) == 1 and len(models) == 1:
        return [dict(described[0], device_id=device) for device in used], []
    notes = []
    if described:
        notes.append(
            f"GPUs of the operations ({_listed(sorted(used))}) are numbered differently from those "
            f"described ({_listed([row['device_id'] for row in described])}); "
            "their properties are unknown"
        )
    return [{"device_id": device} for device in sorted(used)], notes


def device_names(header: Mapping[str, Any]) -> list[str]:
    """Return the product names in a header."""
    names = (device.get("name") for device in _properties(header))
    return [name for name in names if isinstance(name, str) and name.strip()]


def _properties(header: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    properties = header.get("deviceProperties")
    return (
        [device for device in properties if isinstance(device, dict)]
        if isinstance(properties, list)
        else []
    )


def _row(device: Mapping[str, Any], rocm: bool) -> Row:
    threads, warp = _number(device, "maxThreadsPerMultiprocessor"), _number(device, "warpSize")
    major, minor = _number(device, "computeMajor"), _number(device, "computeMinor")
    name = device.get("name")
    row: Row = {
        "device_id": _number(device, "id"),
        "name": name if isinstance(name, str) and name.strip() else None,
        # AMD numbers its architectures differently: 9.0 is an MI210, not a Hopper.
        "compute_capability": None if rocm or major is None else f"{major}.{minor or 0}",
        "max_warps_per_sm": threads // warp if threads and warp else None,
    }
    for column, keys in _NUMBERS.items():
        row[column] = next((n for key in keys if (n := _number(device, key)) is not None), None)
    return row


def _number(device: Mapping[str, Any], key: str) -> int | None:
    digits = str(device.get(key))
    return int(digits) if digits.isdecimal() and len(digits) < 19 else None


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers[:8])) + (", …" if len(numbers) > 8 else "")
