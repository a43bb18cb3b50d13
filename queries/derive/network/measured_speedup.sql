/*
title    = "Measured speed-ups"
question = "How long did iterations of several workers take, and how much faster are they than one?"
source   = """job.json of `tbd-trace collect --ranks --bandwidth`; else jobs of the same workload in
    the database. An iteration is the longest over the ranks; the shortest of them is compared,
    because other work on the machine only makes iterations longer"""
grain    = "trace of one worker, scheme, number of workers and bandwidth"
needs    = ["layer_cost", "trace"]
optional = ["job_point", "job_rank", "iteration"]
[params.link_gbit]
doc = "bandwidth of the link in Gbit/s of jobs whose job.json states none; 0: unknown"
default = 0.0
minimum = 0
[file]
param = "layers"
columns = {}
rows = """SELECT NULL::VARCHAR AS trace_id, NULL::VARCHAR AS scheme, NULL::BIGINT AS workers,
    NULL::DOUBLE AS bandwidth_gbit, NULL::DOUBLE AS iteration_s, NULL::DOUBLE AS median_s,
    NULL::DOUBLE AS alone_s, NULL::DOUBLE AS speedup, NULL::VARCHAR AS source WHERE false"""
[columns]
trace_id = "the trace of one worker"
scheme = "how gradients are exchanged; ddp where job.json is missing"
workers = "number of workers"
bandwidth_gbit = {unit = "Gbit/s", doc = "bandwidth of the link of each worker; NULL when unknown"}
iteration_s = {unit = "s", doc = "shortest iteration"}
median_s = {unit = "s", doc = "median iteration"}
alone_s = {unit = "s", doc = "shortest iteration of one worker"}
speedup = "workers × alone_s ÷ iteration_s"
source = "job.json, or ranks: iterations of the traces of a job"
*/
WITH
-- Captures of the same run, apart from the number of workers.
described AS (
    SELECT trace_id, [capture ->> f FOR f IN ['$.model', '$.variant', '$.framework', '$.batch_size',
        '$.precision', '$.autocast', '$.optimizer', '$.dataset', '$.scale', '$.device', '$.gpu',
        '$.gradient_accumulation', '$.activation_checkpointing']] AS workload
    FROM trace WHERE capture ->> '$.model' IS NOT NULL
),
worker AS (
    SELECT DISTINCT c.trace_id, d.workload
    FROM layer_cost c LEFT JOIN described d USING (trace_id) WHERE c.ranks IS NULL
),
point AS (
    SELECT trace_id, scheme, world_size AS workers, bandwidth_bits_per_s / 1e9 AS bandwidth_gbit,
        quietest_s AS iteration_s, median_s,
        min(quietest_s) FILTER (world_size = 1) OVER (PARTITION BY trace_id) AS alone_s,
        'job.json' AS source
    FROM job_point SEMI JOIN worker USING (trace_id)
),
rank AS (
    SELECT r.job, r.trace_id, r.world_size, d.workload, coalesce(p.scheme, 'ddp') AS scheme,
        coalesce(p.bandwidth_bits_per_s / 1e9,
            nullif(getvariable('link_gbit'), 0))::DOUBLE AS bandwidth_gbit
    FROM job_rank r
    JOIN described d USING (trace_id)
    LEFT JOIN job_point p ON p.trace_id = r.trace_id AND p.is_own
    WHERE r.job IS NOT NULL
),
period AS (
    SELECT trace_id, period_ns / 1e9 AS period_s,
        row_number() OVER (PARTITION BY trace_id ORDER BY process_id, iteration) AS number
    FROM iteration WHERE in_window AND period_ns IS NOT NULL
),
longest AS (
    SELECT r.job, r.scheme, r.world_size, r.bandwidth_gbit, r.workload,
        p.number, max(p.period_s) AS period_s
    FROM rank r JOIN period p USING (trace_id)
    GROUP BY ALL HAVING count(*) = r.world_size
),
job AS (
    SELECT job, scheme, world_size, bandwidth_gbit, workload, min(period_s) AS iteration_s,
        median(period_s) AS median_s
    FROM longest GROUP BY ALL
),
traced AS (
    SELECT w.trace_id, j.scheme, j.world_size AS workers, j.bandwidth_gbit, j.iteration_s,
        j.median_s, a.alone_s, 'ranks' AS source
    FROM worker w
    JOIN job j USING (workload)
    JOIN (SELECT trace_id, min(period_s) AS alone_s FROM period GROUP BY trace_id) a
        ON a.trace_id = w.trace_id
)
SELECT trace_id, scheme, workers, bandwidth_gbit, iteration_s, median_s, alone_s,
    workers * alone_s / iteration_s AS speedup, source
FROM (FROM point UNION ALL FROM traced)
WHERE workers > 1 AND iteration_s > 0
QUALIFY row_number() OVER (PARTITION BY trace_id, scheme, workers, bandwidth_gbit
    ORDER BY source, iteration_s) = 1
