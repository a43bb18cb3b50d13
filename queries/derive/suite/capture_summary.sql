/*
title    = "Comparison of captures"
question = """What was run in each capture, how fast, and was it measured in the same way as the
    others?"""
source   = "throughput of the unprofiled run (Zhu et al. 2018, section 3.4.1)"
grain    = "timeline of a capture, without those in capture_left_out"
needs    = ["trace"]
optional = ["capture_left_out", "iteration_rate", "device", "device_timeline", "layer_clock"]
[columns]
trace_id = "the trace"
capture = "capture directory, or file name"
model = "model; NULL if capture.json does not record it"
framework = "framework; NULL if capture.json does not record it"
configuration = "framework, and any property that differs but should agree"
batch_size = {unit = "sample", doc = """samples per iteration and process; NULL if capture.json does
    not record it"""}
throughput = "throughput of all processes together, in the unit in column throughput_unit"
throughput_unit = """unit in which throughput of the model is published, such as images/s; samples/s
    if capture.json names no unit, and for profiled runs"""
throughput_run = """unprofiled: the unprofiled run of the capture; profiled: the iterations of the
    timeline, without such a run; and the properties that are labels of `tbd-trace ingest`"""
iteration_ns = """mean iteration with the profiler, start to start (iteration_rate), averaged over
    processes"""
gpu_busy_pct = """time with GPU work ÷ elapsed, over all GPUs used; NULL without GPU work in the
    trace"""
layer_clock = "gpu or host: clock of the layer times; NULL without layers"
peak_device_bytes = "peak device memory allocated for tensors; NULL if not recorded"
device = "GPUs used, or cpu; NULL when unknown"
precision = """arithmetic precision, and the type of automatic casting; NULL if capture.json does
    not record it"""
profiler = "profiler of the timeline, with its version"
measured_over = """steady state, or all iterations without a steady state; several joined by a comma
    if processes differ"""
differs = """properties that differ, one sentence each, with the captures. All captures must agree
    in device, precision, scale, processes, profiler (any version), throughput run, layer clock and
    synthetic; captures of a model in variant, data set, batch definition, sequence policy and
    optimizer; captures of a model and framework in framework version. Unknown differs from known.
    NULL if all agree"""
*/
WITH
used_device AS (
    SELECT d.trace_id, string_agg(DISTINCT d.name, ', ' ORDER BY d.name) AS device
    FROM device d
    SEMI JOIN device_timeline t ON t.trace_id = d.trace_id AND t.device_id = d.device_id
    GROUP BY d.trace_id
),
described AS (
    SELECT t.trace_id, regexp_replace(t.name, '/[^/]*$', '') AS capture, t.capture AS said,
        said ->> '$.model' AS model, said ->> '$.framework' AS framework, t.batch_size,
        nullif(concat_ws(' ', said ->> '$.precision', said ->> '$.autocast'), '') AS precision,
        coalesce(u.device, said ->> '$.gpu', said ->> '$.device') AS device,
        try_cast(said ->> '$.throughput.samples_per_second' AS DOUBLE) AS unprofiled_samples_per_s,
        CASE WHEN unprofiled_samples_per_s IS NULL THEN 'profiled' ELSE 'unprofiled' END
            AS throughput_run,
        t.tool,
        concat_ws(' ', t.tool, coalesce(t.tool_version, said ->> '$.profiler_version')) AS profiler,
        c.clock
    FROM trace t
    LEFT JOIN used_device u USING (trace_id)
    LEFT JOIN layer_clock c USING (trace_id)
    WHERE t.trace_id NOT IN (SELECT trace_id FROM capture_left_out)
      AND t.kind = 'timeline'
),
-- Properties that must agree within a part: all captures (''), those of a model, or those of a
-- model and framework.
fact AS (
    SELECT trace_id, capture, part, field, coalesce(value, 'not known') AS value
    FROM (
        SELECT trace_id, capture, unnest([
            {'part': '', 'field': 'device', 'value': device},
            {'part': '', 'field': 'precision', 'value': precision},
            {'part': '', 'field': 'scale', 'value': said ->> '$.scale'},
            {'part': '', 'field': 'processes', 'value': said ->> '$.world_size'},
            {'part': '', 'field': 'synthetic', 'value': coalesce(said ->> '$.synthetic', 'false')},
            {'part': '', 'field': 'profiler', 'value': tool},
            {'part': '', 'field': 'throughput run', 'value': throughput_run},
            {'part': '', 'field': 'layer clock', 'value': clock},
            {'part': coalesce(model, ''), 'field': 'variant', 'value': said ->> '$.variant'},
            {'part': coalesce(model, ''), 'field': 'data set', 'value': said ->> '$.dataset'},
            {'part': coalesce(model, ''), 'field': 'batch definition',
                'value': said ->> '$.batch_definition'},
            {'part': coalesce(model, ''), 'field': 'sequence policy',
                'value': said ->> '$.sequence_policy'},
            {'part': coalesce(model, ''), 'field': 'optimizer', 'value': said ->> '$.optimizer'},
            -- Captures from before these options leave them out.
            {'part': coalesce(model, ''), 'field': 'gradient accumulation',
                'value': coalesce(said ->> '$.gradient_accumulation', '1')},
            {'part': coalesce(model, ''), 'field': 'activation checkpointing',
                'value': coalesce(said ->> '$.activation_checkpointing', 'false')},
            {'part': concat_ws('/', model, framework), 'field': 'framework version',
                'value': said ->> '$.framework_version'},
            {'part': concat_ws('/', model, framework), 'field': 'execution',
                'value': coalesce(said ->> '$.throughput.execution',
                    said ->> '$.profiled.execution', 'the framework''s only one')}
        ], recursive := true)
        FROM described
    )
),
sentence AS (
    SELECT part, field,
        field || ' is '
            || array_to_string(
                list(value || ' in ' || captures ORDER BY instances DESC, value)[:3], ', but ')
            || CASE WHEN count(*) > 3 THEN format(', and {} other values', count(*) - 3) ELSE '' END
            AS text
    FROM (
        SELECT part, field, value, count(*) AS instances,
            array_to_string(list(capture ORDER BY capture)[:3], ', ')
                || CASE WHEN instances > 3 THEN format(' and {} more', instances - 3) ELSE '' END
                AS captures
        FROM fact GROUP BY part, field, value
    )
    GROUP BY part, field HAVING count(*) > 1
),
difference AS (
    SELECT f.trace_id, list(s.text ORDER BY s.text) AS differs,
        string_agg(f.field || ' ' || f.value, ', ' ORDER BY f.field) AS own
    FROM fact f JOIN sentence s USING (part, field)
    GROUP BY f.trace_id
),
rate AS (
    SELECT trace_id, avg(iteration_ns ORDER BY process_id) AS iteration_ns,
        sum(iterations_per_s ORDER BY process_id) AS iterations_per_s,
        string_agg(DISTINCT measured_over, ', ' ORDER BY measured_over) AS measured_over
    FROM iteration_rate GROUP BY trace_id
),
busy AS (
    SELECT trace_id,
        100.0 * coalesce(sum(duration_ns) FILTER (activity <> 'idle'), 0) / sum(duration_ns)
            AS gpu_busy_pct
    FROM device_timeline GROUP BY trace_id
)
SELECT d.trace_id, d.capture, d.model, d.framework,
    nullif(concat_ws(', ', d.framework, x.own), '') AS configuration, d.batch_size,
    coalesce(
        d.unprofiled_samples_per_s
            * coalesce(try_cast(d.said ->> '$.throughput.units_per_sample' AS DOUBLE), 1),
        d.batch_size * r.iterations_per_s) AS throughput,
    CASE d.throughput_run
         WHEN 'unprofiled' THEN coalesce(d.said ->> '$.throughput.unit', 'samples/s')
         ELSE 'samples/s' END AS throughput_unit,
    d.throughput_run || coalesce('; label: '
        || array_to_string(from_json(d.said -> '$.labels', '["VARCHAR"]'), ', '), '')
        AS throughput_run,
    r.iteration_ns, b.gpu_busy_pct, d.clock AS layer_clock,
    try_cast(d.said ->> '$.peak_device_bytes' AS BIGINT) AS peak_device_bytes, d.device,
    d.precision, d.profiler, r.measured_over, x.differs
FROM described d
LEFT JOIN difference x USING (trace_id)
LEFT JOIN rate r USING (trace_id)
LEFT JOIN busy b USING (trace_id)
