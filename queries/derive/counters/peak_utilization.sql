/*
title    = "Utilization of the applicable peaks"
question = "Relative to the peak of each precision used, what was the utilization of each device?"
source   = """Zhu et al. 2018, section 3.4.3; FLOP of each precision are divided by its peak, and
    the resulting times add up"""
grain    = "device used by a process; from counters, else from the model"
needs    = ["training_window", "utilization"]
optional = ["window_op", "kernel_class"]
returns = [
    "trace_id", "process_id", "device_id", "busy_pct", "elapsed_pct", "precisions", "evidence",
    "why_not",
]
[columns]
busy_pct = """time that the FLOP take at peak ÷ time with a running kernel; NULL if why_not explains
    it"""
elapsed_pct = "time that the FLOP take at peak ÷ elapsed time; NULL if why_not explains it"
precisions = "precisions with known FLOP, joined by +: fp32, fp16, tensor"
why_not = "why both percentages are NULL; NULL if they are known"
*/
WITH
-- FP32 counters do not include tensor cores, and a model may not show their use. Unknown FLOP of
-- tensor cores are tolerated below 5 % of the time, or of the pipe.
on_tensor_cores AS (
    SELECT o.trace_id, coalesce(o.process_id, -1) AS process_id,
        coalesce(o.device_id, -1) AS device_id,
        100.0 * coalesce(sum(o.duration_ns) FILTER (c.tensor_core), 0)
            / nullif(sum(o.duration_ns), 0) AS pct
    FROM window_op o
    JOIN kernel_class c ON c.trace_id = o.trace_id AND c.name = o.name
    WHERE o.op_kind = 'kernel'
    GROUP BY ALL
),
known AS (
    SELECT w.trace_id, w.process_id, w.device_id, u.evidence,
        coalesce(sum(u.busy_pct) FILTER (u.flop > 0), 0) AS busy_pct,
        coalesce(sum(u.elapsed_pct) FILTER (u.flop > 0), 0) AS elapsed_pct,
        string_agg(u.precision, '+' ORDER BY u.precision) FILTER (u.flop > 0) AS precisions,
        min(u.reason) FILTER (u.flop > 0 AND u.busy_pct IS NULL) AS reason,
        coalesce(bool_or(u.precision = 'tensor' AND u.flop > 0), false) AS has_tensor_flop,
        coalesce(bool_or(u.precision = 'tensor' AND u.flop IS NULL
            AND coalesce(u.pipe_pct, u.pipe_elapsed_pct, 10 * u.pipe_level) >= 5), false)
            AS lacks_tensor_flop
    FROM training_window w
    JOIN utilization u
        ON  u.trace_id = w.trace_id AND u.pid IS NOT DISTINCT FROM w.pid
        AND coalesce(u.device_id, -1) = w.device_id
    WHERE u.iteration IS NULL AND u.layer IS NULL AND u.kernel_name IS NULL
    GROUP BY ALL
),
evaluated AS (
    SELECT k.*,
        CASE
            WHEN k.reason IS NOT NULL THEN k.reason
            WHEN k.precisions IS NULL THEN 'FLOP unknown: only the use of the pipes was measured'
            WHEN k.lacks_tensor_flop THEN 'tensor cores were used, but their FLOP were not measured'
            WHEN t.pct >= 5 AND NOT k.has_tensor_flop
                THEN format(
                    'kernels on tensor cores take {:.1f} % of the time, but their FLOP are unknown',
                    t.pct)
            WHEN k.busy_pct > 100 THEN 'above the physical peak: FLOP, peak or times are wrong'
        END AS why_not
    FROM known k
    LEFT JOIN on_tensor_cores t USING (trace_id, process_id, device_id)
)
SELECT trace_id, process_id, device_id,
    CASE WHEN why_not IS NULL THEN busy_pct END AS busy_pct,
    CASE WHEN why_not IS NULL THEN elapsed_pct END AS elapsed_pct,
    precisions, evidence, why_not
FROM evaluated
QUALIFY row_number() OVER (
    PARTITION BY trace_id, process_id, device_id ORDER BY why_not IS NOT NULL, evidence) = 1
