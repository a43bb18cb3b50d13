/*
title = "Totals of one kernel name, from a profiler summary that holds no single kernels."
[privacy]
name = "code"
*/
CREATE TABLE kernel_aggregate (
    trace_id  VARCHAR NOT NULL, -- the trace
    device_id INTEGER,          -- device; NULL when the summary is over all devices
    name      VARCHAR NOT NULL, -- demangled kernel name
    instances BIGINT NOT NULL,  -- executions
    total_ns  BIGINT NOT NULL,  -- sum of durations
    mean_ns   DOUBLE,           -- mean duration
    min_ns    BIGINT,           -- shortest
    max_ns    BIGINT            -- longest
);
