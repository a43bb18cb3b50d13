/*
title        = "One periodic sample of the thread running on a CPU."
times        = ["timestamp_ns"]
bounds_trace = false
audit        = "times"
*/
CREATE TABLE cpu_sample (
    trace_id     VARCHAR NOT NULL, -- the trace
    timestamp_ns BIGINT NOT NULL,  -- time, trace clock
    process_id   BIGINT,           -- key of the process
    thread_id    BIGINT,           -- key of the thread
    cpu          INTEGER,          -- logical CPU
    cycles       BIGINT            -- CPU cycles since the thread's previous sample
);
