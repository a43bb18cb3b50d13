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
    SELECT s.side, w.*, t.batch_size FROM diff_side AS s
    JOIN process_work AS w USING (trace_id) JOIN trace AS t USING (trace_id)
),
fact AS (
    SELECT side, unnest([
        -- The program states its own batch size.
        {'position': 1, 'what': 'batch', 'quantity': 'samples of a pass', 'over': 'mean',
         'amount': coalesce(batch_size, batch)::DOUBLE, 'name': NULL},
        {'position': 2, 'what': 'sequence', 'quantity': 'positions of a sample', 'over': 'mean',
         'amount': "sequence"::DOUBLE, 'name': NULL},
        {'position': 3, 'what': 'rows', 'quantity': 'rows of products with weights',
         'over': 'mean', 'amount': "rows"::DOUBLE, 'name': NULL},
        {'position': 4, 'what': 'input', 'quantity': 'positions of convolutions', 'over': 'mean',
         'amount': positions::DOUBLE, 'name': NULL},
        {'position': 5, 'what': 'parameters', 'quantity': 'weights of products and convolutions',
         'over': 'mean', 'amount': parameters::DOUBLE, 'name': NULL},
        {'position': 6, 'what': 'FLOP', 'quantity': 'FLOP of the forward pass', 'over': 'sum',
         'amount': forward_flop::DOUBLE, 'name': NULL},
        {'position': 7, 'what': 'size', 'quantity': 'FLOP of the forward pass, without strides',
         'over': 'sum', 'amount': forward_size::DOUBLE, 'name': NULL},
        {'position': 8, 'what': 'backward', 'quantity': 'FLOP of the backward pass', 'over': 'sum',
         'amount': backward_flop::DOUBLE, 'name': NULL},
        {'position': 9, 'what': 'recomputed', 'quantity': 'FLOP that the backward pass repeats',
         'over': 'sum', 'amount': recomputed_flop::DOUBLE, 'name': NULL},
        {'position': 10, 'what': 'trained values', 'quantity': 'accumulated gradient values',
         'over': 'sum', 'amount': trained_values::DOUBLE, 'name': NULL},
        {'position': 11, 'what': 'passes', 'quantity': 'calls of loss functions', 'over': 'mean',
         'amount': losses::DOUBLE, 'name': NULL},
        {'position': 12, 'what': 'loss', 'quantity': 'values of the inputs of losses',
         'over': 'sum', 'amount': loss_values::DOUBLE, 'name': NULL},
        {'position': 13, 'what': 'optimizer', 'quantity': 'values that the optimizer writes',
         'over': 'sum', 'amount': updated_values::DOUBLE, 'name': "update"},
        {'position': 14, 'what': 'bytes', 'quantity': 'bytes copied to the GPU', 'over': 'sum',
         'amount': input_bytes::DOUBLE, 'name': NULL},
        {'position': 15, 'what': 'collectives', 'quantity': 'collective operations', 'over': 'sum',
         'amount': collectives::DOUBLE, 'name': NULL},
        {'position': 16, 'what': 'communication', 'quantity': 'values of collectives',
         'over': 'sum', 'amount': exchanged_values::DOUBLE, 'name': NULL},
        {'position': 17, 'what': 'kernels', 'quantity': 'kernels', 'over': 'sum',
         'amount': kernels::DOUBLE, 'name': NULL},
        {'position': 18, 'what': 'matrix kernels',
         'quantity': 'kernels of products, convolutions and attention', 'over': 'sum',
         'amount': matrix_kernels::DOUBLE, 'name': NULL},
        {'position': 21, 'what': 'precision', 'quantity': 'type of the operands with most FLOP',
         'over': 'mean', 'amount': NULL, 'name': "precision"},
        {'position': 23, 'what': 'ranks', 'quantity': 'processes with iterations', 'over': 'sum',
         'amount': 1, 'name': NULL},
        {'position': 24, 'what': 'has backward', 'quantity': 'a backward pass ran', 'over': 'mean',
         'amount': has_backward::DOUBLE, 'name': NULL},
        {'position': 25, 'what': 'has optimizer', 'quantity': 'an optimizer stepped',
         'over': 'mean', 'amount': has_optimizer::DOUBLE, 'name': NULL},
        {'position': 26, 'what': 'compiled', 'quantity': 'compiled code ran', 'over': 'mean',
         'amount': is_compiled::DOUBLE, 'name': NULL},
        {'position': 27, 'what': 'graphs', 'quantity': 'graphs launched kernels', 'over': 'mean',
         'amount': uses_graphs::DOUBLE, 'name': NULL},
        {'position': 28, 'what': 'error', 'quantity': 'standard error of FLOP in percent',
         'over': 'mean', 'amount': flop_error_pct, 'name': NULL}
    ], recursive := true)
    FROM work
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
