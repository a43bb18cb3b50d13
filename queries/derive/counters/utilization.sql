/*
title    = "Utilization"
question = "What share of each peak did the window, an iteration, a layer or a kernel use?"
source   = """Zhu et al. 2018, section 3.4: 100 × FLOP ÷ (peak × T), with T both the busy and the
    elapsed time; pipe utilization weighted by cycles"""
grain    = "precision, evidence and device; with by=…, also iteration, layer or kernel"
needs    = ["kernel_work"]
optional = ["analysis_window", "device_timeline", "process"]
returns = [
    "trace_id", "pid", "device_id", "iteration", "layer", "kernel_name", "kernels", "precision",
    "flop", "peak_flops", "busy_ns", "elapsed_ns", "busy_pct", "elapsed_pct", "pipe_pct",
    "pipe_elapsed_pct", "pipe_level", "covered_pct", "evidence", "measured_over", "reason",
]
[params.by]
doc = "what a row covers: the analysis window of the trace, an iteration, a layer or a kernel name"
choices = ["trace", "iteration", "layer", "kernel"]
default = "trace"
[columns]
device_id = "device; NULL when unknown"
iteration = "iteration; NULL unless by=iteration"
layer = "layer; NULL unless by=layer, and for kernels without a layer"
kernel_name = "demangled name; NULL unless by=kernel"
kernels = "number of kernels in the row"
flop = {unit = "FLOP", doc = "floating-point operations"}
peak_flops = """peak of the device; if layers differ in arithmetic, the FLOP-weighted harmonic mean
    of their peaks"""
busy_ns = "time with at least one running kernel (by=layer and by=kernel: sum of kernel durations)"
elapsed_ns = "length of the window or iteration on the device; NULL without a timeline"
busy_pct = "100 × FLOP ÷ (peak × busy time)"
elapsed_pct = """100 × FLOP ÷ (peak × elapsed time); by=layer and by=kernel: the part of it due to
    the row"""
pipe_pct = "utilization of the pipe per SM-active cycle, weighted by cycles"
pipe_elapsed_pct = "utilization of the pipe per elapsed cycle, weighted by cycles"
pipe_level = {unit = "level", doc = """level 0 to 10 of nvprof, weighted by duration; without
    durations, all executions have equal weight"""}
covered_pct = "share of the kernel time with known FLOP, pipe utilization or level"
evidence = "counter or modelled"
measured_over = "steady state, all iterations or whole trace; NULL without a timeline"
reason = "why a percentage is NULL; NULL if all are known"
[advice]
missing = "needs FLOP or pipe utilization of kernels; {work}"
counters = "FLOP or pipe utilization of kernels"
*/
WITH
setting AS (SELECT getvariable('by') AS by_what),
keyed AS (
    SELECT w.*,
        CASE WHEN by_what = 'iteration' THEN iteration END AS row_iteration,
        CASE WHEN by_what = 'layer' THEN layer END AS row_layer,
        CASE WHEN by_what = 'kernel' THEN kernel_name END AS row_kernel
    FROM kernel_work w, setting
    WHERE NOT (by_what = 'iteration' AND iteration IS NULL)
),
-- Time of all kernels of a row, measured or not.
all_kernels AS (
    SELECT trace_id, process_id, device_id, row_iteration, row_layer, row_kernel,
        count(*) AS kernels, sum(duration_ns)::BIGINT AS kernel_ns
    FROM (SELECT DISTINCT trace_id, process_id, device_id, row_iteration, row_layer, row_kernel,
              kernel_id, duration_ns FROM keyed)
    GROUP BY ALL
),
-- Cycles weight the pipe percentages; if any kernel lacks cycles, durations weight all.
weighed AS (
    SELECT *,
        CASE WHEN bool_and(cycles IS NOT NULL) OVER counted THEN cycles
             ELSE duration_ns END AS weight,
        -- Without any duration, all executions have equal weight.
        CASE WHEN bool_or(duration_ns IS NOT NULL) OVER counted THEN duration_ns ELSE 1 END
            AS level_weight
    FROM keyed, setting
    -- FLOP of a layer cannot be divided among its kernels.
    WHERE evidence = 'counter' OR (evidence = 'modelled' AND (by_what <> 'kernel' OR is_own))
    WINDOW counted AS (
        PARTITION BY trace_id, process_id, device_id, row_iteration, row_layer, row_kernel,
            precision, evidence, pipe_active_pct IS NULL AND pipe_elapsed_pct IS NULL)
),
-- Floating-point sums depend on the order of rows; ORDER BY makes them reproducible.
measured AS (
    SELECT trace_id, process_id, device_id, row_iteration, row_layer, row_kernel, precision,
        evidence,
        sum(flop ORDER BY kernel_id) AS flop,
        -- Kernels without FLOP need no peak.
        sum(CASE WHEN flop = 0 THEN 0 ELSE flop / peak_flops END ORDER BY kernel_id) * 1e9
            AS ideal_ns,
        max(peak_flops) AS highest_peak,
        bool_or(flop > 0 AND peak_flops IS NULL) AS lacks_peak,
        sum(pipe_active_pct * weight ORDER BY kernel_id)
            / nullif(sum(weight) FILTER (pipe_active_pct IS NOT NULL), 0) AS pipe_pct,
        sum(pipe_elapsed_pct * weight ORDER BY kernel_id)
            / nullif(sum(weight) FILTER (pipe_elapsed_pct IS NOT NULL), 0) AS pipe_elapsed_pct,
        sum(pipe_level * level_weight)
            / nullif(sum(level_weight) FILTER (pipe_level IS NOT NULL), 0) AS pipe_level,
        sum(duration_ns) AS covered_ns, sum(duration_ns) FILTER (flop IS NOT NULL) AS flop_ns
    FROM weighed
    GROUP BY ALL
),
busy AS (
    SELECT trace_id, process_id, device_id, NULL::BIGINT AS row_iteration,
        sum(duration_ns) FILTER (kernel_active)::BIGINT AS busy_ns,
        sum(duration_ns)::BIGINT AS elapsed_ns
    FROM device_timeline GROUP BY ALL
    UNION ALL
    SELECT trace_id, process_id, device_id, iteration,
        sum(duration_ns) FILTER (kernel_active)::BIGINT, sum(duration_ns)::BIGINT
    FROM device_timeline WHERE iteration IS NOT NULL GROUP BY ALL
),
joined AS (
    SELECT m.*, a.kernels, s.by_what, b.elapsed_ns, w.measured_over,
        CASE WHEN s.by_what IN ('layer', 'kernel') THEN a.kernel_ns
             ELSE coalesce(b.busy_ns, a.kernel_ns) END AS busy_ns,
        100.0 * m.covered_ns / nullif(a.kernel_ns, 0) AS covered_pct,
        100.0 * m.flop_ns / nullif(a.kernel_ns, 0) AS flop_covered_pct
    FROM measured m
    CROSS JOIN setting s
    JOIN all_kernels a
        ON  a.trace_id = m.trace_id AND a.process_id = m.process_id AND a.device_id = m.device_id
        AND a.row_iteration IS NOT DISTINCT FROM m.row_iteration
        AND a.row_layer IS NOT DISTINCT FROM m.row_layer
        AND a.row_kernel IS NOT DISTINCT FROM m.row_kernel
    LEFT JOIN busy b
        ON  b.trace_id = m.trace_id AND b.process_id = m.process_id AND b.device_id = m.device_id
        AND b.row_iteration IS NOT DISTINCT FROM m.row_iteration
    LEFT JOIN analysis_window w
        ON  w.trace_id = m.trace_id AND coalesce(w.process_id, -1) = m.process_id
        AND coalesce(w.device_id, -1) = m.device_id
),
computed AS (
    SELECT *,
        100.0 * ideal_ns / nullif(busy_ns, 0) AS raw_busy_pct,
        100.0 * ideal_ns / nullif(elapsed_ns, 0) AS raw_elapsed_pct,
        -- Below 95 % coverage, the missing kernels could change the result. Rounding keeps a value
        -- of exactly 100 % below the limit.
        CASE
            WHEN flop IS NULL THEN 'FLOP unknown: only the use of the pipe was measured'
            WHEN lacks_peak THEN 'peak of this device unknown'
            WHEN evidence = 'counter' AND flop_covered_pct < 95
                THEN 'counters cover only ' || round(flop_covered_pct, 1) || ' % of the kernel time'
            WHEN by_what = 'kernel' AND flop_covered_pct < 95 THEN 'FLOP are known for only '
                || round(flop_covered_pct, 1) || ' % of the kernel time'
            WHEN busy_ns IS NULL OR busy_ns = 0 THEN 'the durations of the kernels are unknown'
            WHEN round(100.0 * ideal_ns / busy_ns, 6) > 100 THEN 'above the physical peak ('
                || round(100.0 * ideal_ns / busy_ns, 1) || ' %): FLOP, peak or times are wrong'
        END AS why_not
    FROM joined
)
SELECT c.trace_id, p.pid, nullif(c.device_id, -1) AS device_id, c.row_iteration AS iteration,
    c.row_layer AS layer, c.row_kernel AS kernel_name, c.kernels, c.precision, c.flop,
    CASE WHEN NOT c.lacks_peak
         THEN coalesce(c.flop / nullif(c.ideal_ns, 0) * 1e9, c.highest_peak) END AS peak_flops,
    c.busy_ns, c.elapsed_ns,
    CASE WHEN c.why_not IS NULL THEN c.raw_busy_pct END AS busy_pct,
    CASE WHEN c.why_not IS NULL THEN c.raw_elapsed_pct END AS elapsed_pct,
    -- A counter above 100 % is wrong; reason says so.
    CASE WHEN c.pipe_pct <= 100 THEN c.pipe_pct END AS pipe_pct,
    CASE WHEN c.pipe_elapsed_pct <= 100 THEN c.pipe_elapsed_pct END AS pipe_elapsed_pct,
    c.pipe_level, c.covered_pct, c.evidence, c.measured_over,
    coalesce(
        c.why_not,
        CASE WHEN greatest(c.pipe_pct, c.pipe_elapsed_pct) > 100
                 THEN 'use of the pipe above 100 %: the counter is wrong'
             WHEN c.elapsed_ns IS NULL THEN 'no timeline: elapsed time unknown' END) AS reason
FROM computed c
LEFT JOIN process p ON p.trace_id = c.trace_id AND p.process_id = c.process_id
