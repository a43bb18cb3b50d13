/*
title    = "Waits of ranks"
question = "How long does each rank wait for other ranks, for input and for its host?"
source   = """on a GPU: waits for a rank while no compute kernel runs, and idle time, inside and
    outside of waits for input. On a CPU: host_cause_interval, the host being the time of
    Python between operators"""
grain    = "cause of a rank, and rank that it waits for"
needs    = ["_rank_step", "matched_collective", "collective"]
optional = ["gpu_op", "kernel_class", "input_wait", "host_cause_interval", "_host_operator"]
returns = ["job", "rank", "cause", "last_rank", "ns"]
[columns]
cause = "straggler, input or host"
last_rank = "the rank that it waits for; NULL for other causes"
ns = {unit = "ns", doc = "time in the compared steps"}
*/
WITH
place AS (SELECT DISTINCT job, rank, trace_id, process_id, device_id FROM _rank_step),
-- Busy with compute kernels (kind compute), or with anything (kind any).
busy AS (
    SELECT p.job, p.rank, unnest(if(o.op_kind IN ('kernel', 'graph')
            AND c.class IS DISTINCT FROM 'communication', ['compute', 'any'], ['any'])) AS kind,
        o.start_ns, o.end_ns
    FROM place p
    JOIN gpu_op o
        ON  o.trace_id = p.trace_id AND coalesce(o.process_id, -1) = p.process_id
        AND coalesce(o.device_id, -1) = p.device_id
    LEFT JOIN kernel_class c
        ON c.trace_id = o.trace_id AND c.name = o.name AND o.op_kind = 'kernel'
),
-- Each operation adds what lies after the end of all earlier ones.
added AS (
    SELECT job, rank, kind, end_ns,
        greatest(start_ns, coalesce(max(end_ns) OVER (
            PARTITION BY job, rank, kind ORDER BY start_ns, end_ns
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), start_ns)) AS start_ns
    FROM busy
),
running AS MATERIALIZED (
    SELECT *, coalesce(sum(end_ns - start_ns) OVER (
        PARTITION BY job, rank, kind ORDER BY start_ns
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)::BIGINT AS before_ns
    FROM added WHERE end_ns > start_ns
),
waited AS (
    SELECT p.job, p.rank, m.last_rank, c.start_ns,
        least(c.start_ns + m.wait_ns, c.end_ns) AS end_ns
    FROM place p
    JOIN matched_collective m ON m.job = p.job AND m.rank = p.rank
    JOIN collective c ON c.trace_id = m.trace_id AND c.collective_id = m.collective_id
    WHERE m.is_synchronizing AND m.start_skew_ns > m.uncertainty_ns AND m.wait_ns > 0
      AND m.source = if(p.device_id IS NULL, 'gloo', 'kernel')
),
stretch AS (
    SELECT job, rank, 'straggler' AS cause, last_rank, 'compute' AS kind, start_ns, end_ns
    FROM waited
    UNION ALL
    SELECT p.job, p.rank, 'input', NULL, 'any', i.start_ns, i.end_ns
    FROM place p
    JOIN input_wait i ON i.trace_id = p.trace_id AND i.process_id = p.process_id
    UNION ALL
    SELECT job, rank, 'idle', NULL, 'any', start_ns, end_ns FROM _rank_step
),
-- Waits at the same time count once.
apart AS (
    SELECT * EXCLUDE (start_ns),
        greatest(start_ns, coalesce(max(end_ns) OVER (
            PARTITION BY job, rank, cause ORDER BY start_ns, end_ns
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), start_ns)) AS start_ns
    FROM stretch
),
in_step AS (
    SELECT a.job, a.rank, a.cause, a.last_rank, a.kind, a.start_ns, a.end_ns
    FROM apart a
    ASOF JOIN (FROM _rank_step WHERE device_id IS NOT NULL) s
        ON s.job = a.job AND s.rank = a.rank AND a.start_ns >= s.start_ns
    WHERE a.end_ns > a.start_ns AND a.start_ns < s.end_ns
),
-- Busy time before a moment is the sum up to the last start, less what that one has left.
on_gpu AS (
    SELECT w.job, w.rank, w.cause, w.last_rank, sum(w.end_ns - w.start_ns
        - coalesce(e.before_ns + least(w.end_ns, e.end_ns) - e.start_ns, 0)
        + coalesce(b.before_ns + least(w.start_ns, b.end_ns) - b.start_ns, 0))::BIGINT AS ns
    FROM in_step w
    ASOF LEFT JOIN running b
        ON b.job = w.job AND b.rank = w.rank AND b.kind = w.kind AND w.start_ns >= b.start_ns
    ASOF LEFT JOIN running e
        ON e.job = w.job AND e.rank = w.rank AND e.kind = w.kind AND w.end_ns >= e.start_ns
    GROUP BY ALL
),
host_part AS (
    SELECT s.job, s.rank, h.cause, h.start_ns, h.end_ns - h.start_ns AS ns
    FROM _rank_step s
    JOIN host_cause_interval h
        ON  h.trace_id = s.trace_id AND h.process_id = s.process_id AND h.iteration = s.iteration
    WHERE s.device_id IS NULL
),
on_cpu AS (
    SELECT h.job, h.rank, h.cause, w.last_rank, h.ns
    FROM (FROM host_part WHERE cause = 'straggler') h
    ASOF JOIN waited w ON w.job = h.job AND w.rank = h.rank AND h.start_ns >= w.start_ns
    UNION ALL
    SELECT job, rank, if(cause = 'input_pipeline', 'input', 'host'), NULL, ns
    FROM host_part WHERE cause = 'input_pipeline' OR starts_with(cause, 'cpu_')
    UNION ALL
    SELECT s.job, s.rank, 'host', NULL, -o.self_ns
    FROM _rank_step s
    JOIN _host_operator o
        ON  o.trace_id = s.trace_id AND o.process_id = s.process_id AND o.iteration = s.iteration
    WHERE s.device_id IS NULL AND starts_with(o.cause, 'cpu_')
)
SELECT job, rank, cause, last_rank, sum(ns)::BIGINT AS ns
FROM (
    FROM on_gpu WHERE cause <> 'idle'
    UNION ALL
    SELECT job, rank, 'host', NULL, if(cause = 'idle', ns, -ns) FROM on_gpu
    WHERE cause <> 'straggler'
    UNION ALL
    FROM on_cpu
)
GROUP BY ALL
