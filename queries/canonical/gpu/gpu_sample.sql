-- One value of a periodic GPU metric.
CREATE TABLE gpu_sample (
    trace_id          VARCHAR NOT NULL, -- the trace
    timestamp_ns      BIGINT NOT NULL,  -- when, trace clock
    gpu_id            INTEGER,          -- physical GPU, where the file tells
    metric            VARCHAR NOT NULL, -- metric name as the profiler gives it, such as SM Active
    unit              VARCHAR,          -- unit, where the name or the file tells
    value             DOUBLE            -- value
);
