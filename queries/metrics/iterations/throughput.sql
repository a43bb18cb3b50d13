/*
title    = "Throughput"
question = """How many iterations and samples per second did the program process, and how much did
    the profiler slow it down?"""
source   = "total samples ÷ total time, never the mean of rates (Zhu et al. 2018, section 3.4.1)"
grain    = "process"
needs    = ["iteration"]
optional = ["iteration_rate", "trace", "process"]
reduce   = "concat"
returns = [
    "trace_id", "pid", "iterations", "elapsed_ns", "iterations_per_s", "stall_share_pct",
    "batch_size", "samples_per_s", "unprofiled_samples_per_s", "unprofiled_units_per_s",
    "throughput_unit", "real_units_per_s", "real_unit", "padding_pct", "profiler_slowdown_pct",
    "stability", "clock", "measured_over", "method", "confidence", "evidence",
]
[params.batch_size]
doc = "samples per iteration and process; 0: the value in capture.json"
default = 0
[columns]
iterations_per_s = {unit = "1/s", doc = """iterations ÷ elapsed; with fewer than three iterations,
    see stability"""}
stall_share_pct = "time of iterations longer than 1.5 × the median ÷ elapsed"
batch_size = {unit = "sample", doc = """samples per iteration; NULL if neither capture.json nor the
    parameter sets it"""}
samples_per_s = {unit = "sample/s", doc = """batch size × iterations ÷ elapsed, with the profiler;
    if the number of samples varies (--lengths), their mean in place of the batch size"""}
unprofiled_samples_per_s = {unit = "sample/s", doc = """samples per second and process of the
    unprofiled run of the capture; NULL without one"""}
unprofiled_units_per_s = """unprofiled throughput in the unit in column throughput_unit; NULL if
    capture.json names no unit"""
throughput_unit = """unit in which throughput of the model is published, such as images/s or audio
    s/s"""
real_units_per_s = """units of samples without padding, such as tokens, per second and process of
    the unprofiled run, in the unit in column real_unit; NULL if samples have the same length"""
real_unit = "unit of real_units_per_s"
padding_pct = """units of padding ÷ all units in the unprofiled run, or without one in the profiled
    run"""
profiler_slowdown_pct = "100 × (unprofiled ÷ profiled − 1)"
stability = """quality of the rate: too few iterations, no steady state, two groups of times
    (bimodal), stalls, a trend, a coefficient of variation above 5 %; or steady"""
clock = "clock of the periods: host, or gpu if the host ran ahead (iteration_timing)"
measured_over = "steady state, or all iterations without a steady state"
evidence = """source of the batch size: capture.json, label of `tbd-trace ingest`, or parameter;
    NULL without a batch size"""
[[plot]]
kind = "barh"
x = ["trace_id", "pid"]
y = ["samples_per_s", "unprofiled_samples_per_s"]
[[plot]]
kind = "barh"
x = ["trace_id", "pid"]
y = ["iterations_per_s"]
*/
WITH
rated AS (
    SELECT s.*,
        -- 0 means the batch size in capture.json.
        coalesce(nullif(getvariable('batch_size'), 0), t.batch_size) AS batch_size,
        -- capture.json records the rate of all processes together.
        try_cast(json_extract_string(t.capture, '$.throughput.samples_per_second') AS DOUBLE)
            / coalesce(
                nullif(try_cast(json_extract_string(t.capture, '$.world_size') AS BIGINT), 0), 1)
            AS unprofiled_samples_per_s,
        try_cast(json_extract_string(t.capture, '$.throughput.units_per_sample') AS DOUBLE)
            AS units_per_sample,
        json_extract_string(t.capture, '$.throughput.unit') AS throughput_unit,
        try_cast(t.capture ->> '$.throughput.real_units_per_second' AS DOUBLE) AS real_units_per_s,
        t.capture ->> '$.throughput.real_unit' AS real_unit,
        try_cast(coalesce(t.capture ->> '$.throughput.padding_pct',
            t.capture ->> '$.profiled.padding_pct') AS DOUBLE) AS padding_pct,
        CASE WHEN getvariable('batch_size') = 0
             THEN try_cast(t.capture ->> '$.profiled.samples_per_iteration' AS DOUBLE) END
            AS mean_samples,
        CASE
            WHEN getvariable('batch_size') <> 0 THEN 'parameter'
            WHEN list_contains(from_json(t.capture -> '$.labels', '["VARCHAR"]'), 'batch_size')
            THEN 'label'
            WHEN t.batch_size IS NOT NULL THEN 'capture.json'
        END AS evidence
    FROM iteration_rate s JOIN trace t USING (trace_id)
),

per_second AS (
    -- Separate, because batch_size is that of the parameter here, not that of the trace.
    SELECT *, coalesce(mean_samples, batch_size) * iterations_per_s AS samples_per_s
    FROM rated
)
SELECT r.trace_id, p.pid, r.iterations, r.elapsed_ns, r.iterations_per_s, r.stall_share_pct,
    r.batch_size, r.samples_per_s, r.unprofiled_samples_per_s,
    r.unprofiled_samples_per_s * r.units_per_sample AS unprofiled_units_per_s, r.throughput_unit,
    r.real_units_per_s, r.real_unit, r.padding_pct,
    100.0 * (r.unprofiled_samples_per_s / r.samples_per_s - 1) AS profiler_slowdown_pct,
    r.stability, r.clock, r.measured_over, r.method, r.confidence, r.evidence
FROM per_second r
LEFT JOIN process p ON p.trace_id = r.trace_id AND p.process_id = r.process_id
ORDER BY r.trace_id, p.pid, r.process_id
