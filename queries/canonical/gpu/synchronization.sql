/*
title         = """
One synchronization between host and device, or between streams, recorded by CUPTI."""
times         = ["start_ns", "end_ns"]
bounds_trace  = false
aligns_clocks = true
[privacy]
sync_type = "fixed"
*/
CREATE TABLE synchronization (
    trace_id           VARCHAR NOT NULL, -- the trace
    synchronization_id BIGINT NOT NULL,  -- number, unique in the trace
    start_ns           BIGINT,           -- start, trace clock
    end_ns             BIGINT,           -- end, trace clock
    process_id         BIGINT,           -- key of the process
    device_id          INTEGER,          -- device; NULL when unknown
    context_id         BIGINT,           -- CUDA context
    stream_id          BIGINT,           -- CUDA stream
    correlation_id     BIGINT,           -- joins (with process_id) to api_call
    sync_type          VARCHAR           -- event synchronize, stream wait event, stream
                                         -- synchronize, context synchronize, unknown
);
