/*
title    = "Memory outside the allocator"
question = "How much device memory is in use that the framework's allocator does not hold?"
source   = "bytes in use on the device less bytes that the allocator holds: CUDA context, libraries"
grain    = "reading of a device"
needs    = ["memory_device"]
optional = ["_device_reading"]
reduce   = "concat"
[columns.trace_id]
doc = "the trace"
[columns.device_id]
doc = "device"
[columns.timestamp_ns]
unit = "ns"
doc = "time of the reading; NULL when unknown"
[columns.used_bytes]
unit = "byte"
doc = "bytes in use on the device, by all processes"
[columns.total_bytes]
unit = "byte"
doc = "capacity of the device; NULL when unknown"
[columns.reserved_bytes]
unit = "byte"
doc = """bytes that allocators of this trace held then, as read with the device, else as recorded
    or modelled; NULL when unknown"""
[columns.untracked_bytes]
unit = "byte"
doc = "bytes in use less these; NULL when unknown"
[columns.untracked_pct]
unit = "%"
doc = "part of the bytes in use"
[plot]
kind = "line"
x    = "timestamp_ns"
y    = ["used_bytes", "reserved_bytes", "untracked_bytes"]
*/
SELECT trace_id, device_id, timestamp_ns, used_bytes, total_bytes, reserved_bytes, untracked_bytes,
    100 * untracked_bytes / nullif(used_bytes, 0) AS untracked_pct
FROM _device_reading
ORDER BY trace_id, device_id, timestamp_ns
