/*
title = """
One value of a hardware counter or metric for one kernel instance, or for all instances of a kernel
if the file contains only aggregates."""
[privacy]
tool        = "fixed"
metric      = "fixed"
unit        = "fixed"
kernel_name = "code"
text        = "text"
[advice]
missing = "needs hardware counters of the kernels; {counters}"
*/
CREATE TABLE kernel_metric (
    trace_id      VARCHAR NOT NULL, -- the trace
    kernel_id     BIGINT,           -- kernel instance; NULL in an aggregate
    kernel_name   VARCHAR,          -- demangled kernel name
    device_id     INTEGER,          -- device
    tool          VARCHAR NOT NULL, -- nvprof or ncu, which define the metric names; torch for
                                    -- estimates of torch.profiler, which are not measured
    metric        VARCHAR NOT NULL, -- metric name; "metric <id>" for an id that is unknown for this
                                    -- architecture
    metric_id     BIGINT,           -- CUPTI metric id, nvprof databases only
    unit_instance INTEGER,          -- hardware unit (SM) for metrics recorded per unit; NULL for
                                    -- the device-wide value
    unit          VARCHAR,          -- unit after scaling to base units: %, ratio, level, byte,
                                    -- byte/s, ns, cycle, cycle/s, count; NULL when unknown
    value         DOUBLE,           -- value in this unit (level High (7) is 7); NULL if the tool
                                    -- printed none
    text          VARCHAR,          -- value as printed, if it is not a plain number
    min_value     DOUBLE,           -- smallest over the instances, aggregates only
    max_value     DOUBLE,           -- largest over the instances, aggregates only
    instances     BIGINT NOT NULL   -- kernel executions covered by the value; 1 for a single kernel
);
