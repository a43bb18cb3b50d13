/*
title = "Totals of one kernel name, from a profiler summary without single kernels."
[privacy]
name = "code"
*/
CREATE TABLE kernel_aggregate (
    trace_id  VARCHAR NOT NULL, -- the trace
    device_id INTEGER,          -- device; NULL if the summary covers all devices
    name      VARCHAR NOT NULL, -- demangled kernel name
    instances BIGINT NOT NULL,  -- executions
    total_ns  BIGINT NOT NULL,  -- sum of durations
    mean_ns   DOUBLE,           -- mean duration
    min_ns    BIGINT,           -- shortest duration
    max_ns    BIGINT            -- longest duration
);
