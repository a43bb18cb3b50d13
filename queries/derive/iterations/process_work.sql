/*
title    = "Work of the iterations of a process"
question = "How much work does an iteration do: operations, inputs, gradients, updates, exchanges?"
source   = """shapes of the inputs of operators (operator_flop, data/work_operators.csv), kernels,
    copies and collectives. Work that the backward pass repeats, as of activation checkpointing, is
    counted apart; attention counts all pairs, whatever its mask"""
grain    = "process with iterations; means over the iterations in the window"
needs    = ["iteration", "host_window", "work_operators", "operator_flop_formula", "element_types"]
optional = [
    "annotation", "operator_input", "operator_flop", "window_op", "kernel_class",
    "kernel", "memcpy", "collective",
]
returns = [
    "trace_id", "process_id", "iterations", "batch", "sequence", "rows", "positions", "parameters",
    "forward_flop", "forward_size", "backward_flop", "recomputed_flop", "flop_error_pct",
    "trained_values", "losses", "loss_values", "updated_values", "update", "has_backward",
    "has_optimizer", "input_bytes", "collectives", "exchanged_values", "kernels", "matrix_kernels",
    "precision", "is_compiled", "uses_graphs", "evidence",
]
[columns]
process_id = "key of the process; -1 when unknown"
iterations = "iterations counted"
batch = """samples of a pass: first dimension of convolutions and attention, by most FLOP, else of
    the indices of an embedding; NULL without them"""
sequence = "positions of a sample: queries of attention, else indices of an embedding"
rows = "rows of a product with weights in the forward pass, mean weighted by the weights"
positions = "positions at which convolutions apply their weights, per sample"
parameters = "weights that products and convolutions of the forward pass use, each time"
forward_flop = """products, convolutions, attention and fused recurrent layers of the forward pass;
    NULL if shapes are missing for some"""
forward_size = {unit = "FLOP", doc = """the same from shapes alone: convolutions count each position
    of their input once, whatever their stride"""}
backward_flop = "the same in the backward pass, without repeated work of the forward pass"
recomputed_flop = "repeated work of the forward pass in the backward pass"
flop_error_pct = "standard error of the mean of forward_size; NULL for one iteration"
trained_values = "values of gradients that are accumulated into parameters; NULL without a record"
losses = "calls of loss functions; NULL without a record"
loss_values = "values of their inputs: rows × classes"
updated_values = "values of parameters that the optimizer writes; NULL without shapes of its inputs"
update = "operators by which it writes them, which count alike: addcdiv, add or fused"
has_backward = "true if autograd ran; NULL without operators"
has_optimizer = "true if an optimizer stepped; NULL without operators"
input_bytes = "bytes copied from the host to the GPU; NULL without GPU work"
collectives = "collective operations"
exchanged_values = "values that they exchange; NULL if unknown for some"
kernels = "kernels; NULL without GPU work"
matrix_kernels = "kernels of products, convolutions, recurrent layers and attention"
precision = "type of the operands with most FLOP; NULL when unknown"
is_compiled = "true if code of a compiler ran, whose operators are not recorded"
uses_graphs = "true if graphs launched kernels, whose operators are not recorded"
evidence = """shapes: FLOP follow from recorded shapes; kernels: only kernels, copies and
    collectives are known; operators: without either"""
*/
WITH
step AS (
    SELECT trace_id, coalesce(process_id, -1) AS process_id, iteration, start_ns, end_ns
    FROM host_window WHERE iteration IS NOT NULL
),
counted AS (SELECT trace_id, process_id, count(*) AS steps FROM step GROUP BY ALL),
-- Products, convolutions and attention in the steps.
product AS (
    SELECT s.trace_id, s.process_id, s.iteration, o.pass, f.formula, o.operator, o.precision,
        -- model_flop ÷ flop is the part that the backward pass does not repeat.
        if(o.pass = 'recompute', o.full_flop,
            o.full_flop * coalesce(o.model_flop / nullif(o.flop, 0), 1)) AS flop,
        from_json(i.input_dims, '[["BIGINT"]]') AS dims,
        dims[f.first] AS a, dims[f.second] AS b, f.layout,
        CASE WHEN f.formula = 'convolution' THEN 2 * list_product(b) * a[1] * list_product(a[3:])
            ELSE flop END AS size
    FROM (SELECT *, coalesce(process_id, -1) AS owner FROM operator_flop) AS o
    JOIN operator_input AS i
        ON i.trace_id = o.trace_id AND i.annotation_id = o.annotation_id
    JOIN operator_flop_formula AS f ON f.operator = o.operator
    ASOF JOIN step AS s
        ON s.trace_id = o.trace_id AND s.process_id = o.owner AND o.start_ns >= s.start_ns
    WHERE o.start_ns < s.end_ns
),
step_flop AS (
    SELECT trace_id, process_id, iteration,
        coalesce(sum(flop) FILTER (pass = 'forward'), 0) AS forward_flop,
        coalesce(sum(size) FILTER (pass = 'forward'), 0) AS forward_size,
        bool_or(size IS NULL AND pass = 'forward') AS lacks_size,
        coalesce(sum(flop) FILTER (pass = 'backward'), 0) AS backward_flop,
        coalesce(sum(flop) FILTER (pass = 'recompute'), 0) AS recomputed_flop,
        bool_or(flop IS NULL AND pass = 'forward') AS lacks_forward,
        bool_or(flop IS NULL AND pass <> 'forward') AS lacks_backward
    FROM product GROUP BY ALL
),
-- A step without products did no such work.
flop AS (
    SELECT c.trace_id, c.process_id,
        if(bool_or(f.lacks_forward), NULL,
            sum(f.forward_flop ORDER BY f.iteration) / any_value(c.steps)) AS forward_flop,
        if(bool_or(f.lacks_size), NULL,
            sum(f.forward_size ORDER BY f.iteration) / any_value(c.steps)) AS forward_size,
        if(bool_or(f.lacks_backward), NULL,
            sum(f.backward_flop ORDER BY f.iteration) / any_value(c.steps)) AS backward_flop,
        sum(f.recomputed_flop ORDER BY f.iteration) / any_value(c.steps) AS recomputed_flop,
        100 * stddev_samp(f.forward_size ORDER BY f.iteration) / sqrt(any_value(c.steps))
            / nullif(avg(f.forward_size ORDER BY f.iteration), 0) AS flop_error_pct
    FROM counted AS c JOIN step_flop AS f USING (trace_id, process_id)
    GROUP BY ALL
),
sized AS (
    SELECT *,
        CASE WHEN formula IN ('convolution', 'attention') THEN a[1] END AS batch,
        CASE WHEN formula = 'attention' THEN if(layout = 'bshd', a[2], a[3]) END AS sequence,
        -- The second operand of batched and grouped products holds activations.
        CASE WHEN formula IN ('linear', 'convolution') OR formula = 'product'
                AND NOT regexp_matches(operator, 'bmm|grouped') THEN list_product(b) END
            AS weights,
        CASE WHEN formula IN ('linear', 'product') AND weights IS NOT NULL
            THEN list_product(a) / nullif(a[-1], 0) END AS rows,
        CASE WHEN formula = 'convolution' THEN flop / nullif(2 * weights * a[1], 0) END
            AS positions
    FROM product WHERE pass = 'forward'
),
-- The values with most FLOP.
usual AS (
    SELECT trace_id, process_id, max_by(batch, (flop, batch)) AS batch,
        max_by(sequence, (flop, sequence)) FILTER (sequence IS NOT NULL) AS sequence
    FROM (
        SELECT trace_id, process_id, batch, sequence, sum(flop) AS flop
        FROM sized WHERE batch IS NOT NULL GROUP BY ALL
    )
    GROUP BY ALL
),
inputs AS (
    SELECT trace_id, process_id,
        sum(rows * weights ORDER BY rows, weights) / sum(weights) FILTER (rows IS NOT NULL) AS rows,
        sum(positions * weights ORDER BY positions, weights)
            / sum(weights) FILTER (positions IS NOT NULL) AS positions,
        sum(weights) AS weights
    FROM sized GROUP BY ALL
),
numeric_type AS (
    SELECT trace_id, process_id, max_by(precision, (flop, precision)) AS precision
    FROM (
        SELECT trace_id, process_id, precision, sum(flop) AS flop
        FROM product WHERE precision IS NOT NULL GROUP BY ALL
    )
    GROUP BY ALL
),
-- Operators in the steps, with the text of their shapes.
operator AS MATERIALIZED (
    SELECT s.trace_id, s.process_id, a.thread_id, a.start_ns, a.end_ns, a.annotation_id, a.name,
        a.shapes
    FROM (
        SELECT trace_id, coalesce(process_id, -1) AS owner, thread_id, start_ns, end_ns,
            annotation_id, regexp_extract(text, '(?s)^(.*?)(?:, (?:seq|op_id|sizes) = |$)', 1)
                AS name,
            nullif(regexp_extract(text, '(?s), sizes = (.*)', 1), '') AS shapes
        FROM annotation WHERE source IN ('operator', 'python')
    ) AS a
    ASOF JOIN step AS s
        ON s.trace_id = a.trace_id AND s.process_id = a.owner AND a.start_ns >= s.start_ns
    WHERE a.start_ns < s.end_ns
),
ran AS (
    SELECT trace_id, process_id, bool_or(
            regexp_matches(name, '^autograd::engine|Backward\d*$|AccumulateGrad$')) AS has_backward,
        bool_or(starts_with(name, 'Optimizer.step')) AS has_optimizer,
        bool_or(regexp_matches(
            name, '^(?:Torch-Compiled Region|CompiledF|## Call Compiled|triton_)')) AS is_compiled
    FROM operator GROUP BY ALL
),
optimizer_range AS (
    SELECT trace_id, process_id, thread_id, start_ns, end_ns
    FROM operator WHERE starts_with(name, 'Optimizer.step')
),
-- Of nested calls of the same kind, the innermost counts.
call AS (
    SELECT o.trace_id, o.process_id, w.work, w.family, o.thread_id, o.start_ns,
        from_json(o.shapes, '["JSON"]') AS tensors, tensors[w.tensor] AS tensor
    FROM operator AS o JOIN work_operators AS w ON w.operator = o.name
    WINDOW nested AS (
        PARTITION BY o.trace_id, o.process_id, o.thread_id, w.work
        ORDER BY o.start_ns, o.end_ns DESC, o.annotation_id)
    QUALIFY coalesce(lead(o.start_ns) OVER nested >= o.end_ns, true)
),
measured AS (
    SELECT c.trace_id, c.process_id, c.work, c.family, c.tensor,
        CASE WHEN c.tensor IS NULL THEN NULL
            -- A recurrent layer uses each value of its two matrices of weights, or of those in a
            -- list, once for each position, and for two gradients in the backward pass.
            WHEN c.work = 'recurrent' THEN if(c.family = 'forward', 2, 4)
                * list_product(from_json(c.tensor, '["BIGINT"]')[:-2])
                * list_sum(list_transform(
                    if(json_type(c.tensors[2], '$[0]') = 'ARRAY',
                        from_json(c.tensors[2], '[["BIGINT"]]'),
                        list_transform(c.tensors[2:3], lambda t: from_json(t, '["BIGINT"]'))),
                    lambda w: if(len(w) = 2, list_product(w), 0)))
            -- A list of tensors, or one.
            WHEN json_type(c.tensor, '$[0]') = 'ARRAY' THEN list_sum(list_transform(
                from_json(c.tensor, '[["BIGINT"]]'), lambda x: coalesce(list_product(x), 1)))
            ELSE coalesce(list_product(from_json(c.tensor, '["BIGINT"]')), 1) END AS amount
    FROM call AS c
    ASOF LEFT JOIN optimizer_range AS r
        ON r.trace_id = c.trace_id AND r.process_id = c.process_id AND r.thread_id = c.thread_id
        AND c.start_ns >= r.start_ns
    WHERE c.work <> 'update' OR c.start_ns < r.end_ns
),
summed AS (
    SELECT m.trace_id, m.process_id,
        sum(amount) FILTER (work = 'gradient') / any_value(c.steps) AS trained_values,
        count(*) FILTER (work = 'loss') / any_value(c.steps) AS losses,
        sum(amount) FILTER (work = 'loss') / any_value(c.steps) AS loss_values,
        coalesce(sum(amount) FILTER (work = 'recurrent' AND family = 'forward'), 0)
            / any_value(c.steps) AS recurrent_flop,
        coalesce(sum(amount) FILTER (work = 'recurrent' AND family = 'backward'), 0)
            / any_value(c.steps) AS recurrent_backward_flop,
        -- Positions are embedded, too, for all samples at once.
        max(from_json(tensor, '["BIGINT"]')[1]) FILTER (work = 'input') AS batch,
        max(from_json(tensor, '["BIGINT"]')[2]) FILTER (work = 'input') AS sequence,
        -- Parameters are written by addcdiv in Adam, by add in SGD.
        sum(amount) FILTER (family = 'fused') / any_value(c.steps) AS fused,
        sum(amount) FILTER (family = 'addcdiv') / any_value(c.steps) AS addcdiv,
        sum(amount) FILTER (family = 'add') / any_value(c.steps) AS added,
        sum(amount) FILTER (family = 'mul') / any_value(c.steps) AS scaled
    FROM measured AS m JOIN counted AS c USING (trace_id, process_id)
    GROUP BY ALL
),
gpu AS (
    SELECT o.trace_id, coalesce(o.process_id, -1) AS process_id,
        count(*) FILTER (o.op_kind = 'kernel') / any_value(c.steps) AS kernels,
        count(*) FILTER (k.class IN ('GEMM', 'CONV', 'RNN', 'attention')) / any_value(c.steps)
            AS matrix_kernels,
        coalesce(sum(m.bytes) FILTER (m.direction = 'HtoD'), 0) / any_value(c.steps)
            AS input_bytes,
        bool_or(n.graph_node_id IS NOT NULL) AS uses_graphs,
        bool_or(starts_with(o.name, 'triton_')) AS is_compiled
    FROM window_op AS o
    JOIN counted AS c
        ON c.trace_id = o.trace_id AND c.process_id = coalesce(o.process_id, -1)
    LEFT JOIN kernel_class AS k
        ON o.op_kind = 'kernel' AND k.trace_id = o.trace_id AND k.name = o.name
    LEFT JOIN kernel AS n
        ON o.op_kind = 'kernel' AND n.trace_id = o.trace_id AND n.kernel_id = o.op_id
    LEFT JOIN memcpy AS m
        ON o.op_kind = 'memcpy' AND m.trace_id = o.trace_id AND m.memcpy_id = o.op_id
    WHERE o.iteration IS NOT NULL
    GROUP BY ALL
),
exchange AS (
    SELECT s.trace_id, s.process_id, count(*) / any_value(c.steps) AS collectives,
        if(bool_or(o.bytes IS NULL), NULL, sum(o.bytes / coalesce(t.bytes, 4)))
            / any_value(c.steps) AS exchanged_values
    FROM (
        SELECT *, coalesce(process_id, -1) AS owner, coalesce(issue_ns, start_ns) AS at_ns
        FROM collective
    ) AS o
    ASOF JOIN step AS s
        ON s.trace_id = o.trace_id AND s.process_id = o.owner AND o.at_ns >= s.start_ns
    JOIN counted AS c ON c.trace_id = s.trace_id AND c.process_id = s.process_id
    LEFT JOIN element_types AS t ON t.dtype = o.dtype
    WHERE o.at_ns < s.end_ns
    GROUP BY ALL
)
SELECT c.trace_id, c.process_id, c.steps AS iterations,
    coalesce(u.batch, m.batch) AS batch, coalesce(u.sequence, m.sequence) AS sequence,
    i.rows, i.positions, i.weights / c.steps AS parameters,
    f.forward_flop + coalesce(m.recurrent_flop, 0) AS forward_flop,
    f.forward_size + coalesce(m.recurrent_flop, 0) AS forward_size,
    f.backward_flop + coalesce(m.recurrent_backward_flop, 0) AS backward_flop,
    f.recomputed_flop, f.flop_error_pct,
    m.trained_values, nullif(m.losses, 0) AS losses, m.loss_values,
    -- SGD with momentum scales its buffers and adds to them, then adds to the parameters.
    coalesce(m.fused, m.addcdiv, if(abs(2 * m.scaled - m.added) < 0.01 * m.added, m.scaled, NULL),
        m.added) AS updated_values,
    CASE WHEN m.fused IS NOT NULL THEN 'fused' WHEN m.addcdiv IS NOT NULL THEN 'addcdiv'
        WHEN m.added IS NOT NULL THEN 'add' END AS "update",
    r.has_backward, r.has_optimizer, g.input_bytes, coalesce(e.collectives, 0) AS collectives,
    if(e.trace_id IS NULL, 0, e.exchanged_values) AS exchanged_values,
    g.kernels, g.matrix_kernels, t.precision,
    coalesce(r.is_compiled, false) OR coalesce(g.is_compiled, false) AS is_compiled,
    coalesce(g.uses_graphs, false) AS uses_graphs,
    CASE WHEN f.trace_id IS NOT NULL THEN 'shapes' WHEN g.trace_id IS NOT NULL THEN 'kernels'
        ELSE 'operators' END AS evidence
FROM counted AS c
LEFT JOIN flop AS f ON f.trace_id = c.trace_id AND f.process_id = c.process_id
LEFT JOIN usual AS u ON u.trace_id = c.trace_id AND u.process_id = c.process_id
LEFT JOIN inputs AS i ON i.trace_id = c.trace_id AND i.process_id = c.process_id
LEFT JOIN numeric_type AS t ON t.trace_id = c.trace_id AND t.process_id = c.process_id
LEFT JOIN summed AS m ON m.trace_id = c.trace_id AND m.process_id = c.process_id
LEFT JOIN ran AS r ON r.trace_id = c.trace_id AND r.process_id = c.process_id
LEFT JOIN gpu AS g ON g.trace_id = c.trace_id AND g.process_id = c.process_id
LEFT JOIN exchange AS e ON e.trace_id = c.trace_id AND e.process_id = c.process_id
