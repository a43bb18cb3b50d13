/*
title    = "Work of each kernel"
question = "How many floating-point operations did each kernel do, and how busy were its pipes?"
source   = """counters: fadd + fmul + 2 ffma (if counted per cycle, × elapsed cycles), nvprof
    flop_count_sp; model: FLOP of the layers × batch size, else FLOP of the operators
    (operator_flop)"""
grain    = "kernel in the analysis window, precision and evidence"
needs    = ["kernel", "trace", "utilization_metrics"]
optional = [
    "counter_donor_trace", "window_op", "kernel_counter", "layer_definition", "_operator_kernel",
    "device_peak"
]
returns = [
    "trace_id", "kernel_id", "process_id", "device_id", "iteration", "layer", "kernel_name",
    "duration_ns", "precision", "evidence", "flop", "is_own", "peak_flops", "pipe_active_pct",
    "pipe_elapsed_pct", "pipe_level", "cycles",
]
[columns]
kernel_id = "the kernel"
process_id = "key of the process; -1 when unknown"
device_id = "device; -1 when unknown"
iteration = "iteration; NULL outside iterations"
layer = "layer; NULL when unknown"
kernel_name = "demangled name"
duration_ns = "duration"
precision = "fp32, fp16 (outside the tensor cores) or tensor"
evidence = """counter (hardware counters) or modelled (FLOP of the layer, or without layers.json of
    the operator, distributed over its kernels by time); NULL if the kernel has neither"""
flop = {unit = "FLOP", doc = "floating-point operations; NULL when unknown"}
is_own = """true if the FLOP are of this kernel alone: counted, or modelled for an operator that
    launched no other kernel; false for a share by time"""
peak_flops = "peak of the device for this precision; NULL when unknown"
pipe_active_pct = "utilization of the pipe in SM-active cycles"
pipe_elapsed_pct = "utilization of the pipe in all cycles of the kernel"
pipe_level = {unit = "level", doc = """level 0 to 10 of nvprof: not a percentage, and includes
    integer work"""}
cycles = {unit = "cycle", doc = "cycles of the kernel, which weight the pipe percentages"}
[advice]
missing = "needs FLOP or pipe utilization of kernels; {work}"
counters = "FLOP or pipe utilization of kernels"
*/
WITH
counted_kernel AS (
    SELECT o.trace_id, o.op_id AS kernel_id, o.process_id, o.device_id, o.iteration, o.layer,
        o.phase, o.name AS kernel_name, o.duration_ns
    FROM window_op o
    WHERE o.op_kind = 'kernel'
    UNION ALL
    SELECT trace_id, kernel_id, process_id, device_id, NULL, NULL, NULL, name, duration_ns
    FROM kernel
    WHERE trace_id IN (SELECT trace_id FROM trace WHERE kind = 'metrics')
      AND trace_id NOT IN (SELECT trace_id FROM counter_donor_trace)
),
-- Patterns are matched once per metric name, because matching each value is far slower.
meaning AS (
    SELECT m.tool, m.metric, u.precision, u.quantity, u.weight, u.preference, u.required,
        u.required_parts
    FROM (SELECT DISTINCT tool, metric FROM kernel_counter) m
    JOIN (
        SELECT *,
            count(*) FILTER (required) OVER (PARTITION BY tool, precision, quantity, preference)
                AS required_parts
        FROM utilization_metrics
    ) u ON u.tool = m.tool AND regexp_matches(m.metric, u.pattern)
),
measured AS (
    SELECT c.trace_id, c.kernel_id, u.precision, u.quantity, u.weight, u.preference, u.required,
        u.required_parts, c.metric, c.tool, c.value,
        {'preference': u.preference, 'metric': c.metric} AS choice
    FROM kernel_counter c JOIN meaning u USING (tool, metric)
),
-- The roofline section of Nsight Compute counts FLOP per cycle, and reports the rate of cycles.
cycle AS (
    SELECT trace_id, kernel_id,
        any_value(value) FILTER (metric = 'smsp__cycles_elapsed.avg.per_second')
            * any_value(value) FILTER (metric = 'gpu__time_duration.sum') / 1e9 AS elapsed
    FROM kernel_counter
    WHERE metric IN ('smsp__cycles_elapsed.avg.per_second', 'gpu__time_duration.sum')
    GROUP BY trace_id, kernel_id
),
flop_of AS (
    SELECT trace_id, kernel_id, precision,
        sum(value * weight * CASE quantity WHEN 'flop' THEN 1 ELSE elapsed END) AS flop
    FROM measured m LEFT JOIN cycle USING (trace_id, kernel_id)
    WHERE quantity IN ('flop', 'flop_per_cycle')
    GROUP BY trace_id, kernel_id, precision, tool, preference, quantity
    -- Without all of its required parts, a sum would be wrong.
    HAVING count(DISTINCT metric) FILTER (required) = any_value(required_parts)
        AND flop IS NOT NULL
    QUALIFY row_number() OVER (
        PARTITION BY trace_id, kernel_id, precision ORDER BY tool, preference) = 1
),
pipe_of AS (
    SELECT trace_id, kernel_id, precision,
        arg_min(value, choice) FILTER (quantity = 'pipe_active') AS pipe_active_pct,
        arg_min(value, choice) FILTER (quantity = 'pipe_elapsed') AS pipe_elapsed_pct,
        arg_min(value, choice) FILTER (quantity = 'level') AS pipe_level
    FROM measured WHERE quantity IN ('pipe_active', 'pipe_elapsed', 'level')
    GROUP BY trace_id, kernel_id, precision
),
cycles_of AS (
    SELECT trace_id, kernel_id, arg_min(value, choice) AS cycles
    FROM measured WHERE quantity = 'cycles' GROUP BY trace_id, kernel_id
),
counter_row AS (
    SELECT k.*, coalesce(f.precision, p.precision) AS precision, 'counter' AS evidence, f.flop,
        NULL::VARCHAR AS arithmetic, p.pipe_active_pct, p.pipe_elapsed_pct, p.pipe_level, c.cycles
    FROM counted_kernel k
    JOIN (SELECT trace_id, kernel_id, precision FROM flop_of
          UNION SELECT trace_id, kernel_id, precision FROM pipe_of) e
        USING (trace_id, kernel_id)
    LEFT JOIN flop_of f
        ON f.trace_id = k.trace_id AND f.kernel_id = k.kernel_id AND f.precision = e.precision
    LEFT JOIN pipe_of p
        ON p.trace_id = k.trace_id AND p.kernel_id = k.kernel_id AND p.precision = e.precision
    LEFT JOIN cycles_of c ON c.trace_id = k.trace_id AND c.kernel_id = k.kernel_id
),
-- The FLOP of a layer's forward or backward pass in one iteration, distributed over the kernels of
-- the pass by duration. Kernels without a phase and kernels of the loss count as forward.
pass AS (
    SELECT k.*,
        CASE WHEN k.phase = 'backward' THEN 'backward'
             WHEN k.phase IS NULL OR k.phase = 'forward' OR k.phase = 'loss' THEN 'forward'
        END AS pass
    FROM counted_kernel k WHERE k.iteration IS NOT NULL AND k.layer IS NOT NULL
),
modelled_row AS (
    SELECT p.* EXCLUDE (pass),
        CASE WHEN coalesce(d.precision, 'fp32') = 'fp32' THEN 'fp32' ELSE 'tensor' END AS precision,
        'modelled' AS evidence,
        t.batch_size * CASE p.pass WHEN 'backward' THEN d.backward_flop ELSE d.forward_flop END
            * p.duration_ns / nullif(sum(p.duration_ns) OVER (
                PARTITION BY p.trace_id, p.process_id, p.iteration, p.layer, p.pass), 0) AS flop,
        coalesce(d.precision, 'fp32') AS arithmetic,
        NULL::DOUBLE AS pipe_active_pct, NULL::DOUBLE AS pipe_elapsed_pct,
        NULL::DOUBLE AS pipe_level, NULL::DOUBLE AS cycles
    FROM pass p
    JOIN layer_definition d ON d.trace_id = p.trace_id AND d.layer = p.layer
    JOIN trace t ON t.trace_id = p.trace_id
    WHERE p.pass IS NOT NULL AND t.batch_size IS NOT NULL
),
layer_row AS (FROM modelled_row WHERE flop IS NOT NULL),
-- FLOP of operators, for kernels without FLOP of a layer.
operator_row AS (
    SELECT k.*, o.precision, 'modelled' AS evidence, o.flop, o.arithmetic, o.is_sole AS is_own
    FROM counted_kernel k
    JOIN _operator_kernel o USING (trace_id, kernel_id)
    ANTI JOIN layer_row l ON l.trace_id = k.trace_id AND l.kernel_id = k.kernel_id
    WHERE o.precision IN ('fp32', 'fp16', 'tensor') AND o.flop IS NOT NULL
),
known AS (
    SELECT *, true AS is_own FROM counter_row
    UNION ALL BY NAME
    SELECT *, false AS is_own FROM layer_row
    UNION ALL BY NAME
    SELECT * FROM operator_row
),
complete AS (
    SELECT * FROM known
    UNION ALL BY NAME
    SELECT k.*, NULL::VARCHAR AS precision, NULL::VARCHAR AS evidence FROM counted_kernel k
    WHERE NOT EXISTS (
        SELECT 1 FROM known x WHERE x.trace_id = k.trace_id AND x.kernel_id = k.kernel_id)
)
SELECT c.trace_id, c.kernel_id, coalesce(c.process_id, -1) AS process_id,
    coalesce(c.device_id, -1) AS device_id, c.iteration, c.layer, c.kernel_name, c.duration_ns,
    c.precision, c.evidence, c.flop, c.is_own,
    CASE c.precision
        WHEN 'fp32' THEN p.peak_fp32_flops
        WHEN 'fp16' THEN p.peak_fp16_flops
        WHEN 'tensor' THEN CASE coalesce(c.arithmetic, 'fp16')
            WHEN 'fp16' THEN p.peak_tensor_fp16_flops WHEN 'bf16' THEN p.peak_tensor_bf16_flops
            WHEN 'tf32' THEN p.peak_tensor_tf32_flops WHEN 'fp8' THEN p.peak_tensor_fp8_flops
            WHEN 'fp4' THEN p.peak_tensor_fp4_flops END
    END AS peak_flops,
    c.pipe_active_pct, c.pipe_elapsed_pct, c.pipe_level, c.cycles
FROM complete c
LEFT JOIN device_peak p
    ON  p.trace_id = c.trace_id AND p.device_id = c.device_id
    AND (p.process_id IS NULL OR p.process_id = c.process_id)
