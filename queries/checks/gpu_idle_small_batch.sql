/*
title    = "GPU idle"
question = """Do kernels keep the GPU busy, in the steady state of training or else over the whole
    trace?"""
source   = """Zhu et al. 2018, observation 4 (paraphrased from memory): length of the union of
    kernels ÷ elapsed time; causes of the rest as in tbd-trace why"""
grain    = "trace: its least busy device"
needs    = ["gpu_op"]
optional = [
    "training_window", "device_timeline", "window_op", "idle_interval_cause", "step_causes",
]
reduce   = "concat"
[check]
rule = "OBS04"
scope = "trace"
thresholds = "proposed"
advice = "enlarge the batch; tbd-trace query idle_causes shows the causes of idle time"
collect = "a timeline with the kernels of graphs ({graphs})"
[params.min_busy_pct]
doc = "minimum share of time with a running kernel, in percent"
default = 80.0
[params.severe_busy_pct]
doc = "share of time with a running kernel, in percent, below which idle time is severe"
default = 50.0
[params.min_kernels]
doc = "minimum number of kernels of a trace without iterations"
default = 100
*/
WITH
setting AS (
    SELECT getvariable('min_busy_pct')::DOUBLE AS min_busy_pct,
        getvariable('severe_busy_pct')::DOUBLE AS severe_busy_pct,
        getvariable('min_kernels')::BIGINT AS min_kernels
),
busy AS (
    SELECT trace_id, process_id, device_id, sum(duration_ns) AS elapsed_ns,
        100.0 * coalesce(sum(duration_ns) FILTER (kernel_active), 0) / sum(duration_ns) AS busy_pct
    FROM device_timeline GROUP BY ALL
),
-- Time without a kernel: exposed copies, and idle time by cause.
unused AS (
    SELECT trace_id, process_id, device_id, 'copies' AS cause, sum(duration_ns) AS ns
    FROM device_timeline WHERE activity = 'copy' GROUP BY ALL
    UNION ALL
    SELECT trace_id, process_id, device_id, cause, sum(duration_ns)
    FROM idle_interval_cause GROUP BY ALL
),
explained AS (
    SELECT u.trace_id, u.process_id, u.device_id,
        first(s.advice ORDER BY u.ns DESC, u.cause) AS advice,
        array_to_string(list(format('{} {:.1f} %', s.title, 100.0 * u.ns / b.elapsed_ns)
            ORDER BY u.ns DESC, u.cause)[:3], ', ') AS causes
    FROM unused u
    JOIN busy b USING (trace_id, process_id, device_id)
    JOIN step_causes s USING (cause)
    GROUP BY ALL
),
graphed AS (
    SELECT DISTINCT trace_id, coalesce(process_id, -1) AS process_id,
        coalesce(device_id, -1) AS device_id
    FROM window_op WHERE op_kind = 'graph'
),
evaluated AS (
    SELECT w.trace_id, w.label, b.busy_pct, x.advice,
        CASE
            WHEN g.trace_id IS NOT NULL
                THEN 'graphs were traced as a whole, so the busy time inside them is unknown'
            WHEN w.iterations IS NULL AND w.kernels < s.min_kernels
                THEN format(
                    'no iterations were found, and only {} kernels ran; at least {} are needed',
                    w.kernels, s.min_kernels)
        END AS why_not,
        -- Severe only with three or more iterations: a whole trace includes set-up. A program
        -- without evidence of training need not fill a GPU, so it gets a note.
        CASE WHEN b.busy_pct >= s.min_busy_pct THEN NULL
             WHEN NOT w.trains THEN 'note'
             WHEN b.busy_pct < s.severe_busy_pct AND w.iterations >= 3 THEN 'severe'
             ELSE 'warning' END AS found,
        CASE WHEN found = 'severe' THEN s.severe_busy_pct ELSE s.min_busy_pct END AS threshold,
        format('{} ran kernels for {:.1f} % of {}', w.label, b.busy_pct, w.span)
            || coalesce('; time without a kernel: ' || x.causes, '') AS reason
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
    CASE WHEN verdict = 'finding' THEN advice END AS advice
FROM evaluated
QUALIFY row_number() OVER (
    PARTITION BY trace_id
    ORDER BY list_position(
            ['pass', 'not evaluable', 'note', 'warning', 'severe'],
            coalesce(severity, verdict)) DESC,
        busy_pct, label) = 1
ORDER BY trace_id
