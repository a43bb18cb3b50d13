/*
title = """
One hardware counter or metric value of one kernel instance, or of all instances of a kernel where
the file holds aggregates only."""
[privacy]
tool        = "fixed"
metric      = "fixed"
unit        = "fixed"
kernel_name = "code"
text        = "text"
[advice]
missing = """
needs hardware counters of the kernels; collect them with `ncu --csv --page raw` or, before
compute capability 7.5, `nvprof --metrics`"""
*/
CREATE TABLE kernel_metric (
    trace_id      VARCHAR NOT NULL, -- the trace
    kernel_id     BIGINT,           -- kernel instance; NULL in an aggregate
    kernel_name   VARCHAR,          -- demangled kernel name
    device_id     INTEGER,          -- device
    tool          VARCHAR NOT NULL, -- nvprof or ncu: the metric's vocabulary
    metric        VARCHAR NOT NULL, -- metric name; "metric <id>" where the file has only an id that
                                    -- is not known for this architecture
    metric_id     BIGINT,           -- CUPTI metric id, nvprof databases only
    unit_instance INTEGER,          -- hardware unit (SM) for metrics recorded per unit; NULL for
                                    -- the device-wide value
    unit          VARCHAR,          -- unit after scaling to base units: %, ratio, level, byte,
                                    -- byte/s, ns, cycle, cycle/s, count; NULL when unknown
    value         DOUBLE,           -- the value in that unit (a level such as High (7) is 7); NULL
                                    -- when the tool printed none
    text          VARCHAR,          -- the value as printed, where it is not a plain number
    min_value     DOUBLE,           -- smallest over the instances, aggregates only
    max_value     DOUBLE,           -- largest over the instances, aggregates only
    instances     BIGINT NOT NULL   -- kernel executions the value stands for; 1 for a single kernel
);
