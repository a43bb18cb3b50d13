/*
title    = "FLOP of operators from their input shapes"
question = "How many floating-point operations does each call of an operator of PyTorch imply?"
source   = """shapes recorded by torch.profiler. Matrix product m × k × n: 2 m k n. Convolution:
    2 × weights × batch × positions of the output (transposed: of the input), backward once per
    gradient. Attention: 2 pairs (d_q + d_v) per head, backward 2 pairs (3 d_q + 2 d_v), as it
    computes the scores again. Algorithmic FLOP: a Winograd kernel executes fewer"""
grain    = """call of an operator of data/operator_flop_formula.csv without another such call
    inside, so that each piece of work counts once"""
needs    = ["operator_input", "operator_flop_formula"]
optional = ["annotation", "annotation_semantics", "_host_tree"]
returns = [
    "trace_id", "annotation_id", "operator", "process_id", "thread_id", "start_ns", "end_ns",
    "pass", "flop", "full_flop", "model_flop", "least_bytes", "precision", "convention", "evidence",
]
[columns]
annotation_id = "the call"
operator = "its name"
thread_id = "thread of the call"
start_ns = "start of the call"
end_ns = "end of the call"
pass = """forward (also outside of training), backward, or recompute: a forward operator inside the
    backward pass, as of activation checkpointing"""
flop = {unit = "FLOP", doc = """floating-point operations, without pairs that a causal mask
    excludes; NULL if shapes or values are not sufficient"""}
full_flop = """the same with excluded pairs, as PyTorch's FlopCounterMode
    counts; else equal to flop"""
model_flop = """flop without repeated work: 0 for recompute, and without the
    scores of attention backward"""
least_bytes = """least traffic of device memory: each input read and each output written once; NULL
    for transposed convolutions, and below 16 bits, where outputs have another type"""
precision = """type of its tensors: float64, float32, float16, bfloat16, float8, float4; NULL if
    they differ or are unknown"""
convention = """matrix product, convolution, attention (all pairs), attention (causal pairs) or
    attention (causal window)"""
evidence = "modelled"
*/
WITH
-- Of nested calls the innermost counts: the next call on the thread starts after its end.
counted AS (
    SELECT i.*, a.process_id, a.thread_id, a.start_ns, a.end_ns, f.* EXCLUDE (operator)
    FROM operator_input i
    JOIN operator_flop_formula f USING (operator)
    JOIN annotation a USING (trace_id, annotation_id)
    WINDOW stack AS (
        PARTITION BY trace_id, a.process_id, a.thread_id
        ORDER BY a.start_ns, a.end_ns DESC, annotation_id)
    QUALIFY coalesce(lead(a.start_ns) OVER stack >= a.end_ns, true)
),
read AS (
    SELECT * EXCLUDE (dims, types, value),
        -- Heads before positions.
        list_transform([dims[first], dims[second], dims[third]], lambda x:
            if(layout = 'bshd', [x[1], x[3], x[2], x[4]], x)) AS tensors,
        tensors[1] AS a, tensors[2] AS b, tensors[3] AS c,
        CASE WHEN types[first] = types[second] THEN types[first] END AS precision,
        from_json(value[stride], '["BIGINT"]') AS strides,
        from_json(value[padding], '["BIGINT"]') AS paddings,
        from_json(value[dilation], '["BIGINT"]') AS dilations,
        -- Without such an argument, the operator is not transposed.
        if(transposed IS NULL, false, TRY_CAST(value[transposed] AS BOOLEAN)) AS is_transposed,
        list_count(list_filter(from_json(value[mask], '["BOOLEAN"]')[:2], lambda x: x))
            AS gradients,
        TRY_CAST(value[causal] AS BOOLEAN) AS is_causal,
        -- -1 without a window.
        if("window" IS NULL, -1, TRY_CAST(value["window"] AS BIGINT)) AS window_left
    FROM (
        SELECT *, from_json(input_dims, '[["BIGINT"]]') AS dims,
            from_json(input_types, '["VARCHAR"]') AS types,
            from_json(input_values, '["JSON"]') AS value
        FROM counted
    )
),
-- Positions at which a convolution applies its weights.
sized AS (
    SELECT *,
        CASE
            WHEN formula = 'convolution backward'
                THEN list_product(if(is_transposed, a, dims_of_gradient)[3:])
            WHEN is_transposed THEN list_product(a[3:])
            WHEN len(a) = len(b) THEN list_product(list_transform(
                a[3:], lambda n, i: (n + 2 * coalesce(paddings[i], paddings[1])
                    - coalesce(dilations[i], dilations[1]) * (b[i + 2] - 1) - 1)
                    // coalesce(strides[i], strides[1]) + 1))
        END AS positions,
        -- Of L queries and S keys, a causal query i has min(i, S) pairs, in a window at most its
        -- width. FlashAttention aligns the mask with the last key, where L and S differ.
        a[3]::DOUBLE * b[3] AS all_pairs,
        CASE WHEN window_left >= 0 THEN least(window_left + 1, b[3]) ELSE b[3] END AS reach,
        CASE WHEN NOT is_causal AND window_left = -1 THEN all_pairs
             WHEN is_causal AND window_left >= -1 AND (layout IS NULL OR a[3] = b[3])
             THEN least(a[3], reach)::DOUBLE * (least(a[3], reach) + 1) / 2
                + greatest(a[3] - reach, 0)::DOUBLE * reach
        END AS pairs
    FROM (SELECT *, from_json(input_dims, '[["BIGINT"]]')[third] AS dims_of_gradient FROM read)
),
worked AS (
    SELECT *,
        CASE precision WHEN 'float64' THEN 8 WHEN 'float32' THEN 4 WHEN 'float16' THEN 2
            WHEN 'bfloat16' THEN 2 END
            * CASE formula
                WHEN 'product' THEN list_product(a) + list_product(b)
                    + list_product(a) / nullif(a[-1], 0) * b[-1]
                WHEN 'linear' THEN list_product(a) + list_product(b)
                    + list_product(a) / nullif(a[-1], 0) * b[1]
                WHEN 'convolution' THEN CASE WHEN NOT is_transposed
                    THEN list_product(a) + list_product(b) + a[1] * b[1] * positions END
                WHEN 'convolution backward' THEN gradients
                    * (list_product(a) + list_product(b) + list_product(dims_of_gradient))
                WHEN 'attention' THEN list_product(a) + list_product(b) + list_product(c)
                    + a[1] * a[2] * a[3] * c[4]
                WHEN 'attention backward' THEN 2 * (list_product(a) + list_product(b)
                    + list_product(c) + a[1] * a[2] * a[3] * c[4])
            END AS least_bytes,
        CASE formula
            -- Grouped products have one matrix per group, each for a part of the rows.
            WHEN 'product' THEN 2 * list_product(a) * b[-1]
            WHEN 'linear' THEN 2 * list_product(a) * b[1]
            WHEN 'convolution' THEN 2 * list_product(b) * a[1] * positions
            WHEN 'convolution backward' THEN 2 * list_product(b) * a[1] * positions * gradients
            WHEN 'attention' THEN 2 * a[1] * a[2] * (a[4] + c[4]) * all_pairs
            WHEN 'attention backward' THEN 2 * a[1] * a[2] * (3 * a[4] + 2 * c[4]) * all_pairs
        END AS full_flop,
        CASE WHEN starts_with(formula, 'attention') THEN pairs / nullif(all_pairs, 0) ELSE 1 END
            AS unmasked,
        -- Attention backward computes the product of queries and keys again.
        CASE formula WHEN 'attention backward' THEN 2 * (a[4] + c[4]) / (3.0 * a[4] + 2 * c[4])
            ELSE 1 END AS not_repeated
    FROM sized
),
-- Whether the backward pass encloses the call, and whether the innermost enclosing operator of
-- autograd is a forward one: only where gradients are recorded do operators have sequence numbers.
outward AS (
    WITH RECURSIVE enclosing AS (
        SELECT trace_id, annotation_id, annotation_id AS around, 0 AS level FROM counted
        UNION ALL
        SELECT e.trace_id, e.annotation_id, t.parent_id, e.level + 1
        FROM enclosing e
        JOIN _host_tree t ON t.trace_id = e.trace_id AND t.annotation_id = e.around
        WHERE t.parent_id IS NOT NULL
    )
    SELECT e.trace_id, e.annotation_id, bool_or(s.is_backward) AS in_backward,
        arg_min(s.is_backward, e.level) FILTER (s.is_backward OR s.seq IS NOT NULL) AS is_gradient
    FROM enclosing e
    JOIN annotation_semantics s ON s.trace_id = e.trace_id AND s.annotation_id = e.around
    GROUP BY ALL
)
SELECT w.trace_id, w.annotation_id, w.operator, w.process_id, w.thread_id, w.start_ns, w.end_ns,
    CASE WHEN NOT coalesce(o.in_backward, false) THEN 'forward'
         WHEN o.is_gradient THEN 'backward' ELSE 'recompute' END AS pass,
    (w.full_flop * w.unmasked)::DOUBLE AS flop, w.full_flop::DOUBLE AS full_flop,
    CASE WHEN pass = 'recompute' AND w.full_flop IS NOT NULL THEN 0
         ELSE w.full_flop * w.unmasked * w.not_repeated END::DOUBLE AS model_flop,
    w.least_bytes::DOUBLE AS least_bytes, w.precision,
    CASE WHEN w.formula IN ('product', 'linear') THEN 'matrix product'
         WHEN starts_with(w.formula, 'convolution') THEN 'convolution'
         WHEN w.is_causal AND w.window_left >= 0 THEN 'attention (causal window)'
         WHEN w.is_causal THEN 'attention (causal pairs)'
         WHEN NOT w.is_causal THEN 'attention (all pairs)' ELSE 'attention' END AS convention,
    'modelled' AS evidence
FROM worked w
LEFT JOIN outward o USING (trace_id, annotation_id)
