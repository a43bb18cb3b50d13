/*
title = "One value of a periodic GPU metric."
times = ["timestamp_ns"]
audit = "times"
[privacy]
metric = "fixed"
unit   = "fixed"
[advice]
missing = "needs periodic GPU metrics; collect with `nsys profile --gpu-metrics-device=all`"
*/
CREATE TABLE gpu_sample (
    trace_id     VARCHAR NOT NULL, -- the trace
    timestamp_ns BIGINT NOT NULL,  -- when, trace clock
    gpu_id       INTEGER,          -- physical GPU, where known
    metric       VARCHAR NOT NULL, -- metric name as the profiler gives it, such as SM Active
    unit         VARCHAR,          -- unit, where the name or the file shows it
    value        DOUBLE            -- value
);
