/*
title        = "Begin or end of an interval that a program or profiler marks in a memory history."
times        = ["timestamp_ns"]
bounds_trace = false
[privacy]
stage = "fixed"
name  = "text"
*/
CREATE TABLE memory_annotation (
    trace_id     VARCHAR NOT NULL, -- the trace
    device_id    INTEGER,          -- device
    timestamp_ns BIGINT,           -- time, trace clock
    stage        VARCHAR,          -- begin or end
    name         VARCHAR           -- for example Optimizer.step#AdamW.step
);
