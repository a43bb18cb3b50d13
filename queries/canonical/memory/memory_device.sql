/*
title        = "One reading of a device's memory."
times        = ["timestamp_ns"]
bounds_trace = false
[advice]
missing = """needs readings of the device's memory in use; `tbd-trace collect --memory` records them
    on a GPU"""
*/
CREATE TABLE memory_device (
    trace_id       VARCHAR NOT NULL, -- the trace
    device_id      INTEGER,          -- device
    timestamp_ns   BIGINT,           -- time, trace clock; NULL when unknown
    used_bytes     BIGINT,           -- bytes in use, by all processes
    total_bytes    BIGINT,           -- capacity
    reserved_bytes BIGINT            -- bytes that the program's allocator held; NULL when unknown
);
