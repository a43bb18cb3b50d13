/*
title    = "Measured runs"
question = """How fast did each captured run train, how certain is that, and which runs have the
    same workload?"""
source   = """total samples ÷ total time of the unprofiled run, else of the timeline; the interval
    is ± 2 standard errors of the iteration times of the timeline"""
grain    = "timeline of a capture with a recorded model and batch size"
needs    = ["trace"]
optional = ["iteration_rate", "device", "device_peak", "device_timeline"]
[columns]
trace_id = "the trace"
capture = "capture directory, or file name"
model = "model"
framework = "framework; NULL if capture.json does not record it"
software = "framework, its version and execution mode; NULL if capture.json does not record them"
gpu = "GPUs used, or cpu; NULL when unknown"
precision = """arithmetic precision, and the type of automatic casting; NULL if capture.json does
    not record it"""
workload = """model and all properties that must agree to compare frameworks, GPUs or batch sizes:
    variant, data set, batch definition, sequence policy, optimizer, precision, scale, processes,
    kind of run"""
sweep = "batch-size sweep of the run: model, framework, precision and GPU"
batch_size = {unit = "sample", doc = "samples per iteration and process"}
samples_per_s = {unit = "sample/s", doc = "throughput of all processes together"}
low_samples_per_s = {unit = "sample/s", doc = """lower end of its interval; NULL with fewer than
    three iterations"""}
high_samples_per_s = {unit = "sample/s", doc = """upper end of its interval; NULL as
    low_samples_per_s"""}
iterations = "iterations measured for the throughput"
peak_bytes = """peak device memory allocated for tensors, without reserved memory; NULL if not
    recorded"""
memory_bytes = "memory of the smallest GPU used; NULL when unknown"
peak_flops = "total peak of the GPUs used, for the precision; NULL when unknown"
evidence = """unprofiled: the unprofiled run of the capture; profiled: the timeline; and the
    properties that are labels of `tbd-trace ingest`"""
*/
WITH
used AS (
    SELECT DISTINCT t.trace_id, d.device_id, d.name, d.memory_bytes, p.peak_fp32_flops,
        p.peak_tensor_tf32_flops, p.peak_tensor_fp16_flops, p.peak_tensor_bf16_flops
    FROM (SELECT DISTINCT trace_id, process_id, device_id FROM device_timeline) t
    JOIN device d
        ON  d.trace_id = t.trace_id AND d.device_id = t.device_id
        AND (d.process_id IS NULL OR d.process_id = t.process_id)
    LEFT JOIN device_peak p
        ON  p.trace_id = d.trace_id AND p.device_id = d.device_id
        AND p.process_id IS NOT DISTINCT FROM d.process_id
),
hardware AS (
    SELECT trace_id, string_agg(DISTINCT name, ', ' ORDER BY name) AS gpu,
        min(memory_bytes) AS memory_bytes, sum(peak_fp32_flops) AS fp32,
        sum(peak_tensor_tf32_flops) AS tf32, sum(peak_tensor_fp16_flops) AS fp16,
        sum(peak_tensor_bf16_flops) AS bf16
    FROM used GROUP BY trace_id
),
rate AS (
    SELECT trace_id, sum(iterations_per_s ORDER BY process_id) AS iterations_per_s,
        min(iterations) AS timed_iterations
    FROM iteration_rate GROUP BY trace_id
),
-- capture.json has no iteration times, so the variation of the timeline is used for the unprofiled
-- run.
spread AS (
    SELECT trace_id, max(cv_pct) / 100 AS cv
    FROM iteration_rate WHERE iterations >= 3 GROUP BY trace_id
),
described AS (
    SELECT t.trace_id, regexp_replace(t.name, '/[^/]*$', '') AS capture, t.capture AS said,
        said ->> '$.model' AS model, said ->> '$.framework' AS framework,
        framework || ' ' || (said ->> '$.framework_version') || coalesce(
            ' ' || coalesce(said ->> '$.throughput.execution', said ->> '$.profiled.execution'), '')
            AS software,
        coalesce(h.gpu, said ->> '$.gpu', said ->> '$.device') AS gpu,
        nullif(concat_ws(' ', said ->> '$.precision', said ->> '$.autocast'), '') AS precision,
        t.batch_size,
        try_cast(said ->> '$.throughput.samples_per_second' AS DOUBLE) AS unprofiled,
        t.batch_size * r.iterations_per_s AS profiled,
        CASE WHEN unprofiled IS NULL THEN 'profiled' ELSE 'unprofiled' END AS evidence,
        coalesce(unprofiled, profiled) AS samples_per_s,
        CASE WHEN unprofiled IS NULL THEN r.timed_iterations
             ELSE try_cast(said ->> '$.throughput.iterations' AS BIGINT) END AS iterations,
        2 * s.cv / sqrt(greatest(iterations, 1)) AS uncertainty,
        try_cast(said ->> '$.peak_device_bytes' AS BIGINT) AS peak_bytes,
        h.memory_bytes,
        CASE WHEN precision = 'fp32' THEN h.fp32 WHEN precision = 'tf32' THEN h.tf32
             WHEN regexp_matches(precision, 'bf(loat)?16') THEN h.bf16
             WHEN regexp_matches(precision, 'f(p|loat)?16|half|mixed') THEN h.fp16 END AS peak_flops
    FROM trace t
    LEFT JOIN hardware h USING (trace_id)
    LEFT JOIN rate r USING (trace_id)
    LEFT JOIN spread s USING (trace_id)
    WHERE t.kind = 'timeline'
)
-- Unknown properties are '?', so that runs are comparable only if the same properties are unknown.
SELECT trace_id, capture, model, framework, software, gpu, precision,
    concat_ws(' · ', model,
        coalesce(said ->> '$.variant', '?'), coalesce(said ->> '$.dataset', '?'),
        coalesce(said ->> '$.batch_definition', '?'), coalesce(said ->> '$.sequence_policy', '?'),
        coalesce(said ->> '$.optimizer', '?'), coalesce(precision, '?'),
        coalesce(said ->> '$.scale', '?'), coalesce(said ->> '$.world_size', '?'), evidence,
        nullif(said ->> '$.gradient_accumulation', '1') || ' passes',
        CASE WHEN said ->> '$.activation_checkpointing' = 'true' THEN 'checkpointed' END,
        CASE WHEN said ->> '$.synthetic' = 'true' THEN 'not measured' END) AS workload,
    concat_ws(', ', model, framework, precision, gpu) AS sweep,
    batch_size, samples_per_s, samples_per_s * (1 - uncertainty) AS low_samples_per_s,
    samples_per_s * (1 + uncertainty) AS high_samples_per_s, iterations, peak_bytes, memory_bytes,
    peak_flops,
    -- Facts that the user stated at ingest.
    evidence || coalesce('; label: '
        || array_to_string(from_json(said -> '$.labels', '["VARCHAR"]'), ', '), '') AS evidence
FROM described
WHERE model IS NOT NULL AND batch_size IS NOT NULL AND samples_per_s > 0
