/*
title = "One value of a periodic GPU metric."
times = ["timestamp_ns"]
audit = "times"
[privacy]
metric = "fixed"
unit   = "fixed"
[advice]
missing = "needs periodic GPU metrics; {gpu_metrics}"
*/
CREATE TABLE gpu_sample (
    trace_id     VARCHAR NOT NULL, -- the trace
    timestamp_ns BIGINT NOT NULL,  -- time, trace clock
    gpu_id       INTEGER,          -- physical GPU; NULL when unknown
    metric       VARCHAR NOT NULL, -- metric name of the profiler, such as SM Active
    unit         VARCHAR,          -- unit; NULL if neither name nor file contains it
    value        DOUBLE            -- value
);
