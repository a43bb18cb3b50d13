/*
title    = "CPU utilization"
question = """What share of its CPU cores does the program use, in the measured iterations or else
    over the whole trace?"""
source   = """Zhu et al. 2018, observation 9 (paraphrased from memory): active time of all cores ÷
    (cores × elapsed time)"""
grain    = "trace: all its profiled processes together"
needs    = ["trace"]
optional = ["cpu_sample", "process", "host_window"]
reduce   = "concat"
[check]
rule = "OBS09"
scope = "trace"
thresholds = "recalled"
advice = "most cores are free; if the GPU waits for data, give the input pipeline more workers"
collect = """{cpu_samples}, and the number of cores with --set cpu_cores=N"""
[params.cpu_cores]
doc = """CPU cores available to the program, in a container its quota; 0: unknown, because profiles
    do not record it"""
default = 0
[params.min_cpu_pct]
doc = "CPU utilization below which most cores are free, in percent"
default = 15.0
[params.max_cpu_pct]
doc = "CPU utilization above which the CPUs may limit training, in percent"
default = 80.0
*/
WITH
setting AS (
    SELECT getvariable('cpu_cores')::BIGINT AS cpu_cores,
        getvariable('min_cpu_pct')::DOUBLE AS min_cpu_pct,
        getvariable('max_cpu_pct')::DOUBLE AS max_cpu_pct
),
-- The measured iterations, or else the whole trace.
counted AS (
    SELECT t.trace_id, coalesce(min(w.start_ns), any_value(t.start_ns)) AS start_ns,
        coalesce(max(w.end_ns), any_value(t.end_ns)) AS end_ns,
        count(DISTINCT w.iteration) AS iterations
    FROM trace t LEFT JOIN host_window w ON w.trace_id = t.trace_id AND w.iteration IS NOT NULL
    GROUP BY t.trace_id
),
-- System-wide samples include other programs, which have no row in process.
sampled AS (
    SELECT s.trace_id, s.timestamp_ns, s.cycles, s.timestamp_ns - lag(s.timestamp_ns) OVER (
        PARTITION BY s.trace_id, s.process_id, s.thread_id ORDER BY s.timestamp_ns) AS since_ns
    FROM cpu_sample s
    SEMI JOIN process p ON p.trace_id = s.trace_id AND p.process_id = s.process_id
),
-- A thread that ran without a break since its last sample counts the cycles of the clock. The 99th
-- percentile of cycles per ns estimates the clock rate without outliers.
clock AS (
    SELECT trace_id, quantile_cont(cycles / since_ns, 0.99) AS cycles_per_ns
    FROM sampled WHERE since_ns > 0 AND cycles > 0 GROUP BY trace_id
),
active AS (
    SELECT s.trace_id, any_value(w.iterations) AS iterations,
        sum(s.cycles) / any_value(c.cycles_per_ns) / any_value(w.end_ns - w.start_ns) AS cores
    FROM sampled s
    JOIN clock c ON c.trace_id = s.trace_id
    JOIN counted w
        ON w.trace_id = s.trace_id AND s.timestamp_ns > w.start_ns AND s.timestamp_ns <= w.end_ns
    GROUP BY s.trace_id
),
evaluated AS (
    SELECT t.trace_id, a.cores, 100.0 * a.cores / nullif(s.cpu_cores, 0) AS cpu_pct, s.*,
        a.iterations,
        CASE
            WHEN list_contains(t.lacks, 'cpu_sample') THEN 'the trace has no CPU samples'
            WHEN a.trace_id IS NULL OR a.cores IS NULL
                THEN 'the window has no CPU samples with cycles'
            WHEN s.cpu_cores <= 0 THEN format(
                '{:.2f} cores were busy on average; the number of available cores is unknown',
                a.cores)
            WHEN a.cores > s.cpu_cores THEN format(
                '{:.2f} cores were busy on average, more than cpu_cores = {}', a.cores, s.cpu_cores)
        END AS why_not
    FROM trace t
    CROSS JOIN setting s
    LEFT JOIN active a ON a.trace_id = t.trace_id
)
SELECT trace_id,
    CASE WHEN why_not IS NOT NULL THEN 'not evaluable'
         WHEN cpu_pct < min_cpu_pct OR cpu_pct > max_cpu_pct THEN 'finding'
         ELSE 'pass' END AS verdict,
    -- Free cores cost nothing; saturated cores may limit training.
    CASE WHEN verdict = 'finding'
         THEN CASE WHEN cpu_pct > max_cpu_pct THEN 'warning' ELSE 'note' END END AS severity,
    CASE WHEN why_not IS NULL THEN cpu_pct END AS value,
    CASE WHEN cpu_pct > max_cpu_pct THEN max_cpu_pct ELSE min_cpu_pct END AS threshold, '%' AS unit,
    CASE WHEN why_not IS NULL THEN 'estimated' END AS evidence,
    coalesce(why_not, format('{:.2f} of {} cores were busy on average ({:.1f} %) over {}',
        cores, cpu_cores, cpu_pct,
        CASE WHEN iterations > 0 THEN iterations || ' iterations' ELSE 'the whole trace' END
    )) AS reason,
    CASE WHEN verdict = 'finding' AND severity = 'warning'
         THEN 'the CPUs are nearly saturated; if the GPU waits for data, preprocess ahead of time '
            || 'or on the GPU, or use more cores'
    END AS advice
FROM evaluated
ORDER BY trace_id
