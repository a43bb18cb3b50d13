/*
title        = "One allocation that failed, because memory was exhausted."
times        = ["timestamp_ns"]
bounds_trace = false
[privacy]
allocator = "fixed"
[advice]
missing = """needs an allocation that failed; a snapshot of PyTorch shows it if its history was
    recorded when the program ran out of memory"""
*/
CREATE TABLE memory_failure (
    trace_id          VARCHAR NOT NULL, -- the trace
    sequence          BIGINT NOT NULL,  -- position among the events, as memory_event.sequence
    timestamp_ns      BIGINT,           -- time, trace clock; NULL if the file has no times
    process_id        BIGINT,           -- key of the process; NULL when unknown
    device_id         INTEGER,          -- device
    stream_id         BIGINT,           -- CUDA stream
    allocator         VARCHAR,          -- as memory_event.allocator
    requested_bytes   BIGINT,           -- bytes that the program asked for
    device_free_bytes BIGINT,           -- free bytes of the device then; NULL when unknown
    stack_id          BIGINT            -- call stack of the request; NULL without one
);
