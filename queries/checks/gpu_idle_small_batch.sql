/*
title    = "GPU idle"
question = "Do kernels keep the GPU busy, in the steady state of training or else over the whole trace?"
source   = "Zhu et al. 2018, observation 4 (paraphrased from memory): length of the union of kernels ÷ elapsed time"
grain    = "trace: its least busy device"
needs    = ["gpu_op"]
optional = ["training_window", "device_timeline", "window_op", "idle_interval_cause"]
[check]
rule = "OBS04"
scope = "trace"
thresholds = "proposed"
advice = "enlarge the batch; tbd-trace query idle_causes tells what the GPU waits for"
collect = "a timeline, with CUDA graphs traced node by node (nsys --cuda-graph-trace=node)"
[params.min_busy_pct]
doc = "kernels should run for at least this share of the time, in percent"
default = 80.0
[params.severe_busy_pct]
doc = "below this share, in percent, idle time is severe"
default = 50.0
[params.min_kernels]
doc = "fewer kernels than these, outside of iterations, say nothing about how busy a program keeps the GPU"
default = 100
*/
WITH
setting AS (
    SELECT coalesce(getvariable('min_busy_pct'), 80.0)::DOUBLE AS min_busy_pct,
        coalesce(getvariable('severe_busy_pct'), 50.0)::DOUBLE AS severe_busy_pct,
        coalesce(getvariable('min_kernels'), 100)::BIGINT AS min_kernels
),
busy AS (
    SELECT trace_id, process_id, device_id, sum(duration_ns) AS elapsed_ns,
        100.0 * coalesce(sum(duration_ns) FILTER (kernel_active), 0) / sum(duration_ns) AS busy_pct
    FROM device_timeline GROUP BY ALL
),
-- What happens while no kernel runs: copies that nothing hides, and idle time by its cause.
unused AS (
    SELECT trace_id, process_id, device_id, 'copies' AS cause, sum(duration_ns) AS ns
    FROM device_timeline WHERE activity = 'copy' GROUP BY ALL
    UNION ALL
    SELECT trace_id, process_id, device_id, cause, sum(duration_ns)
    FROM idle_interval_cause GROUP BY ALL
),
explained AS (
    SELECT u.trace_id, u.process_id, u.device_id, first(u.cause ORDER BY u.ns DESC, u.cause) AS cause,
        array_to_string(list(format('{} {:.1f} %', u.cause, 100.0 * u.ns / b.elapsed_ns)
            ORDER BY u.ns DESC, u.cause)[:3], ', ') AS causes
    FROM unused u JOIN busy b USING (trace_id, process_id, device_id)
    GROUP BY ALL
),
graphed AS (
    SELECT DISTINCT trace_id, coalesce(process_id, -1) AS process_id,
        coalesce(device_id, -1) AS device_id
    FROM window_op WHERE op_kind = 'graph'
),
judged AS (
    SELECT w.trace_id, w.label, b.busy_pct, x.cause,
        CASE
            WHEN g.trace_id IS NOT NULL
                THEN 'CUDA graphs were traced as a whole: how busy the GPU is inside them is not known'
            WHEN w.iterations IS NULL AND w.kernels < s.min_kernels
                THEN format('no iterations are known, and only {} kernels ran: too few to tell how busy the program keeps the GPU', w.kernels)
        END AS why_not,
        -- The whole trace includes set-up, one or two iterations show little, and what nothing shows to
        -- be training need not fill a GPU.
        CASE WHEN b.busy_pct >= s.min_busy_pct THEN NULL
             WHEN NOT w.trains THEN 'note'
             WHEN b.busy_pct < s.severe_busy_pct AND w.iterations >= 3 THEN 'severe'
             ELSE 'warning' END AS found,
        CASE WHEN found = 'severe' THEN s.severe_busy_pct ELSE s.min_busy_pct END AS threshold,
        format('{} ran kernels for {:.1f} % of {}', w.label, b.busy_pct, w.span)
            || coalesce('; of the time, without a kernel: ' || x.causes, '') AS reason
    FROM training_window w
    CROSS JOIN setting s
    JOIN busy b USING (trace_id, process_id, device_id)
    LEFT JOIN explained x USING (trace_id, process_id, device_id)
    LEFT JOIN graphed g USING (trace_id, process_id, device_id)
)
SELECT trace_id,
    CASE WHEN why_not IS NOT NULL THEN 'not evaluable' WHEN found IS NOT NULL THEN 'finding'
         ELSE 'pass' END AS verdict,
    CASE WHEN why_not IS NULL THEN found END AS severity,
    CASE WHEN why_not IS NULL THEN busy_pct END AS value,
    threshold, '%' AS unit, 'timeline' AS evidence,
    coalesce(why_not, reason) AS reason,
    CASE
        WHEN verdict <> 'finding' THEN NULL
        WHEN cause = 'copies'
            THEN 'copies keep kernels waiting: pin host memory, copy asynchronously and fetch the next batch early'
        WHEN cause = 'data wait'
            THEN 'iterations wait for data: more loader workers, fetching ahead, or preprocessing on the GPU'
        WHEN cause = 'synchronization'
            THEN 'the host waits for the GPU and launches nothing meanwhile: take .item(), blocking copies and synchronisation out of the loop'
        WHEN cause = 'memory allocation'
            THEN 'device memory is allocated inside iterations: reuse buffers, or let a caching allocator keep them'
        WHEN cause = 'host work'
            THEN 'the launching thread works outside CUDA meanwhile (Python, framework, loading of data): fetch data ahead, enlarge the batch, fuse small kernels or replay them as a CUDA graph'
        WHEN cause IN ('launch', 'launch latency', 'other CUDA call')
            THEN 'kernels are shorter than it takes to launch them: enlarge the batch, fuse small kernels or replay them as a CUDA graph'
    END AS advice
FROM judged
QUALIFY row_number() OVER (
    PARTITION BY trace_id
    ORDER BY list_position(['pass', 'not evaluable', 'note', 'warning', 'severe'], coalesce(severity, verdict)) DESC,
        busy_pct, label) = 1
ORDER BY trace_id
