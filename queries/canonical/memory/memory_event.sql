/*
title        = "One allocation or release of device memory."
times        = ["timestamp_ns"]
bounds_trace = false
[privacy]
operation   = "fixed"
memory_kind = "fixed"
name        = "text"
[advice]
missing = "needs device allocations; collect with `nsys profile --cuda-memory-usage=true`"
*/
CREATE TABLE memory_event (
    trace_id       VARCHAR NOT NULL, -- the trace
    timestamp_ns   BIGINT NOT NULL,  -- time, trace clock
    process_id     BIGINT,           -- key of the process
    device_id      INTEGER,          -- device
    context_id     BIGINT,           -- CUDA context
    stream_id      BIGINT,           -- CUDA stream
    correlation_id BIGINT,           -- joins (with process_id) to api_call
    operation      VARCHAR,          -- allocate or free
    memory_kind    VARCHAR,          -- as memcpy.src_kind
    address        UBIGINT,          -- virtual address
    bytes          BIGINT,           -- size
    name           VARCHAR           -- variable name; NULL when unknown
);
