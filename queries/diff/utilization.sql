/*
title    = "Utilization of two runs"
question = "Does B use its GPUs better than A, and which part of an iteration changed?"
source   = """compute_util, step_breakdown and utilization side by side; only values with the same
    evidence are compared"""
grain    = "measure of a device used by a process"
needs    = ["diff_side", "analysis_window"]
optional = ["device_timeline", "utilization", "process", "trace"]
[columns]
rank = """number of the device of a process on each side, ordered by trace name, process id and
    device"""
measure = """gpu_busy_pct, kernel_busy_pct (compute_util); compute_pct, exposed_communication_pct,
    exposed_copy_pct, idle_pct (step_breakdown); fp32, fp16 and tensor: busy_pct, elapsed_pct,
    pipe_pct (utilization)"""
evidence = """timeline, kernel name (communication kernels are recognised by name), counter,
    modelled or sampled"""
a_pct = "value in A; NULL when unknown"
b_pct = "value in B; NULL when unknown"
change_points = {unit = "percentage point", doc = "B − A; NULL unless both are known"}
a_ns = "time per iteration in A; NULL without iterations and for utilization of a peak"
b_ns = "time per iteration in B; NULL without iterations and for utilization of a peak"
[plot]
kind = "grouped_barh"
x = ["measure", "rank"]
y = ["a_pct", "b_pct"]
limit = 24
title = "GPU utilization"
*/
WITH
ranked AS (
    SELECT s.side, w.trace_id, coalesce(w.process_id, -1) AS process_id, p.pid,
        coalesce(w.device_id, -1) AS device_id, w.iterations,
        row_number() OVER (PARTITION BY s.side
            ORDER BY t.name, w.trace_id, p.pid, w.process_id, w.device_id) - 1 AS rank
    FROM diff_side s
    JOIN analysis_window w USING (trace_id)
    JOIN trace t USING (trace_id)
    LEFT JOIN process p ON p.trace_id = w.trace_id AND p.process_id = w.process_id
),
activity_time AS (
    SELECT r.side, r.rank, r.iterations, sum(t.duration_ns) AS elapsed_ns,
        coalesce(sum(t.duration_ns) FILTER (t.activity <> 'idle'), 0) AS gpu_busy_ns,
        coalesce(sum(t.duration_ns) FILTER (t.kernel_active), 0) AS kernel_busy_ns,
        coalesce(sum(t.duration_ns) FILTER (t.activity = 'compute'), 0) AS compute_ns,
        coalesce(sum(t.duration_ns) FILTER (t.activity = 'communication'), 0) AS communication_ns,
        coalesce(sum(t.duration_ns) FILTER (t.activity = 'copy'), 0) AS copy_ns,
        coalesce(sum(t.duration_ns) FILTER (t.activity = 'idle'), 0) AS idle_ns
    FROM ranked r JOIN device_timeline t USING (trace_id, process_id, device_id)
    GROUP BY ALL
),
fact AS (
    SELECT side, rank, position, measure, evidence, 100.0 * ns / elapsed_ns AS pct,
        ns / iterations AS ns
    FROM (
        SELECT side, rank, iterations, elapsed_ns, unnest([
            {'position': 1, 'measure': 'gpu_busy_pct', 'evidence': 'timeline', 'ns': gpu_busy_ns},
            {'position': 2, 'measure': 'kernel_busy_pct', 'evidence': 'timeline',
             'ns': kernel_busy_ns},
            {'position': 3, 'measure': 'compute_pct', 'evidence': 'kernel name', 'ns': compute_ns},
            {'position': 4, 'measure': 'exposed_communication_pct', 'evidence': 'kernel name',
             'ns': communication_ns},
            {'position': 5, 'measure': 'exposed_copy_pct', 'evidence': 'timeline', 'ns': copy_ns},
            {'position': 6, 'measure': 'idle_pct', 'evidence': 'timeline', 'ns': idle_ns}
        ], recursive := true)
        FROM activity_time
    )
    UNION ALL
    SELECT side, rank, position, precision || ' ' || measure, evidence, pct, NULL
    FROM (
        SELECT r.side, r.rank, u.precision, u.evidence, unnest([
            {'position': 7, 'measure': 'busy_pct', 'pct': u.busy_pct},
            {'position': 8, 'measure': 'elapsed_pct', 'pct': u.elapsed_pct},
            {'position': 9, 'measure': 'pipe_pct', 'pct': u.pipe_pct}
        ], recursive := true)
        FROM ranked r
        JOIN utilization u
            ON  u.trace_id = r.trace_id AND u.pid IS NOT DISTINCT FROM r.pid
            AND coalesce(u.device_id, -1) = r.device_id
    )
    WHERE pct IS NOT NULL
)
SELECT coalesce(a.rank, b.rank) AS rank, coalesce(a.measure, b.measure) AS measure,
    coalesce(a.evidence, b.evidence) AS evidence, a.pct AS a_pct, b.pct AS b_pct,
    b.pct - a.pct AS change_points, a.ns AS a_ns, b.ns AS b_ns
-- FULL JOIN on evidence: a counted value is never compared with a modelled one.
FROM (SELECT * FROM fact WHERE side = 'A') a
FULL JOIN (SELECT * FROM fact WHERE side = 'B') b
    ON a.rank = b.rank AND a.measure = b.measure AND a.evidence = b.evidence
ORDER BY 1, coalesce(a.position, b.position), 2, 3
