/*
title    = "Memory outside the allocator"
question = "How much device memory is in use that the framework's allocator does not hold?"
source   = "bytes in use on the device less bytes that the allocator holds: CUDA context, libraries"
grain    = "reading of a device"
needs    = ["memory_device"]
optional = ["_device_reading"]
reduce   = "concat"
returns = [
    "trace_id", "device_id", "timestamp_ns", "used_bytes", "total_bytes", "reserved_bytes",
    "untracked_bytes", "untracked_pct",
]
[columns]
timestamp_ns = "time of the reading; NULL when unknown"
used_bytes = "bytes in use on the device, by all processes"
total_bytes = "capacity of the device; NULL when unknown"
reserved_bytes = """bytes that allocators of this trace held then, as read with the device, else as
    recorded or modelled; NULL when unknown"""
untracked_pct = "part of the bytes in use"
[plot]
kind = "line"
x    = "timestamp_ns"
y    = ["used_bytes", "reserved_bytes", "untracked_bytes"]
*/
SELECT trace_id, device_id, timestamp_ns, used_bytes, total_bytes, reserved_bytes, untracked_bytes,
    100 * untracked_bytes / nullif(used_bytes, 0) AS untracked_pct
FROM _device_reading
ORDER BY trace_id, device_id, timestamp_ns
