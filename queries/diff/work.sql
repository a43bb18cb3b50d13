/*
title    = "Work of two runs"
question = "Does a step of B do the same work as one of A?"
source   = """process_work, summed over the processes of a side. Numbers of operators and kernels
    may differ at the same work (fused or compiled code, activation checkpointing)"""
grain    = "quantity of work that is known on a side"
needs    = ["diff_side"]
optional = [
    "process_work", "trace", "device", "device_timeline", "window_op", "kernel_class", "kernel",
]
[columns]
what = "word for the quantity: batch, rows, sequence, FLOP, backward, loss, …"
quantity = "its meaning"
a = "amount in a step of A; 1 or 0 for yes or no; NULL when unknown"
b = "amount in a step of B"
ratio = "B ÷ A"
a_name = "value in A of a property without an amount, such as the GPU"
b_name = "value in B"
*/
WITH
work AS (
    -- The program states its own batch size.
    SELECT s.side, w.* REPLACE (coalesce(t.batch_size, w.batch) AS batch) FROM diff_side AS s
    JOIN process_work AS w USING (trace_id) JOIN trace AS t USING (trace_id)
),
fact AS (
    SELECT side, f.*
    FROM work
    CROSS JOIN LATERAL (VALUES
        (1, 'batch', 'samples of a pass', 'mean', batch::DOUBLE, NULL),
        (2, 'sequence', 'positions of a sample', 'mean', "sequence"::DOUBLE, NULL),
        (3, 'rows', 'rows of products with weights', 'mean', "rows"::DOUBLE, NULL),
        (4, 'input', 'positions of convolutions', 'mean', positions::DOUBLE, NULL),
        (5, 'parameters', 'weights of products and convolutions', 'mean', parameters::DOUBLE, NULL),
        (6, 'FLOP', 'FLOP of the forward pass', 'sum', forward_flop::DOUBLE, NULL),
        (7, 'size', 'FLOP of the forward pass, without strides', 'sum', forward_size::DOUBLE, NULL),
        (8, 'backward', 'FLOP of the backward pass', 'sum', backward_flop::DOUBLE, NULL),
        (9, 'recomputed', 'FLOP that the backward pass repeats', 'sum',
            recomputed_flop::DOUBLE, NULL),
        (10, 'trained values', 'accumulated gradient values', 'sum', trained_values::DOUBLE, NULL),
        (11, 'passes', 'calls of loss functions', 'mean', losses::DOUBLE, NULL),
        (12, 'loss', 'values of the inputs of losses', 'sum', loss_values::DOUBLE, NULL),
        (13, 'optimizer', 'values that the optimizer writes', 'sum',
            updated_values::DOUBLE, "update"),
        (14, 'bytes', 'bytes copied to the GPU', 'sum', input_bytes::DOUBLE, NULL),
        (15, 'collectives', 'collective operations', 'sum', collectives::DOUBLE, NULL),
        (16, 'communication', 'values of collectives', 'sum', exchanged_values::DOUBLE, NULL),
        (17, 'kernels', 'kernels', 'sum', kernels::DOUBLE, NULL),
        (18, 'matrix kernels', 'kernels of products, convolutions and attention', 'sum',
            matrix_kernels::DOUBLE, NULL),
        (21, 'precision', 'type of the operands with most FLOP', 'mean', NULL, "precision"),
        (23, 'ranks', 'processes with iterations', 'sum', 1, NULL),
        (24, 'has backward', 'a backward pass ran', 'mean', has_backward::DOUBLE, NULL),
        (25, 'has optimizer', 'an optimizer stepped', 'mean', has_optimizer::DOUBLE, NULL),
        (26, 'compiled', 'compiled code ran', 'mean', is_compiled::DOUBLE, NULL),
        (27, 'graphs', 'graphs launched kernels', 'mean', uses_graphs::DOUBLE, NULL),
        (28, 'error', 'standard error of FLOP in percent', 'mean', flop_error_pct, NULL)
    ) AS f(position, what, quantity, over, amount, name)
    UNION ALL
    SELECT s.side, 22, 'GPU', 'GPUs used', 'mean', NULL, d.name
    FROM diff_side AS s
    JOIN device AS d USING (trace_id)
    SEMI JOIN device_timeline AS t ON t.trace_id = d.trace_id AND t.device_id = d.device_id
),
-- Matrix kernels that run on both sides, equally often in a step.
matrix_kernel AS (
    SELECT s.side, o.name, count(*) AS calls, sum(o.duration_ns) AS ns,
        sum(n.grid_x::BIGINT * n.grid_y * n.grid_z) AS blocks
    FROM diff_side AS s
    JOIN window_op AS o USING (trace_id)
    JOIN kernel_class AS k ON k.trace_id = o.trace_id AND k.name = o.name
    JOIN kernel AS n ON n.trace_id = o.trace_id AND n.kernel_id = o.op_id
    WHERE o.op_kind = 'kernel' AND o.iteration IS NOT NULL
        AND k.class IN ('GEMM', 'CONV', 'RNN', 'attention')
    GROUP BY ALL
),
kernel_pair AS (
    SELECT a.ns / x.steps AS a_ns, b.ns / y.steps AS b_ns, a.blocks / x.steps AS a_blocks,
        b.blocks / y.steps AS b_blocks
    FROM matrix_kernel AS a
    JOIN matrix_kernel AS b ON a.side = 'A' AND b.side = 'B' AND b.name = a.name
    JOIN (SELECT side, sum(iterations) AS steps FROM work GROUP BY side) AS x ON x.side = 'A'
    JOIN (SELECT side, sum(iterations) AS steps FROM work GROUP BY side) AS y ON y.side = 'B'
    WHERE abs(a.calls * y.steps - b.calls * x.steps) < 0.005 * a.calls * y.steps
),
-- A sum is unknown where a part is.
summed AS (
    SELECT side, position, what, quantity,
        CASE WHEN count(amount) < count(*) THEN NULL
            WHEN any_value(over) = 'sum' THEN sum(amount ORDER BY amount)
            ELSE avg(amount ORDER BY amount) END AS amount,
        string_agg(DISTINCT name, ', ' ORDER BY name) AS name
    FROM fact GROUP BY ALL
)
SELECT * EXCLUDE (position) FROM (
    SELECT 'matrix blocks' AS what, 'blocks of matrix kernels that both run equally often'
            AS quantity,
        sum(a_blocks ORDER BY a_blocks) AS a, sum(b_blocks ORDER BY b_blocks) AS b,
        b / nullif(a, 0) AS ratio, NULL AS a_name, NULL AS b_name, 19 AS position
    FROM kernel_pair HAVING count(*) > 0
    UNION ALL
    SELECT 'matrix time', 'ns of matrix kernels that both run equally often',
        sum(a_ns ORDER BY a_ns) AS a,
        sum(b_ns ORDER BY b_ns) AS b, b / nullif(a, 0), NULL, NULL, 20
    FROM kernel_pair HAVING count(*) > 0
    UNION ALL
    SELECT what, quantity, max(amount) FILTER (side = 'A') AS a,
        max(amount) FILTER (side = 'B') AS b, b / nullif(a, 0),
        max(name) FILTER (side = 'A'), max(name) FILTER (side = 'B'), position
    FROM summed
    WHERE amount IS NOT NULL OR name IS NOT NULL
    GROUP BY what, quantity, position
)
ORDER BY position
