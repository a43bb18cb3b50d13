/*
title    = "Model FLOP utilization"
question = "Which share of the dense peak do the FLOP of the model take, by each convention?"
source   = """Chowdhery et al. 2022 (PaLM), appendix B: MFU without and HFU with repeated work.
    Parameters: a multiplication and an addition forward, twice that backward"""
grain    = "convention and device used by a process, with `by=iteration` also iteration"
needs    = ["kernel", "analysis_window"]
optional = ["trace", "device_timeline", "device_peak", "process", "_device_flop"]
reduce   = "concat"
returns = [
    "trace_id", "pid", "device_id", "iteration", "convention", "flop_per_token", "model_flop",
    "executed_flop", "elapsed_ns", "samples_per_s", "tokens_per_s", "arithmetic", "peak_flops",
    "mfu_pct", "hfu_pct", "covered_pct", "evidence", "measured_over", "reason",
]
[params.by]
doc = "trace: the analysis window; iteration: a row per iteration"
choices = ["trace", "iteration"]
default = "trace"
[params.config]
doc = "path of the model's config.json (Hugging Face); empty: only FLOP from shapes"
default = ""
[params.sequence_length]
doc = "tokens per sequence; 0: unknown"
default = 0
[params.document_tokens]
doc = """tokens per document of packed sequences, Σ length² ÷ Σ length, which limits causal
    attention; 0: one document per sequence"""
default = 0
[params.tokens_per_s]
doc = """tokens per second and GPU (of a model on several GPUs: tokens ÷ their number); 0: from
    tokens_per_iteration, or batch size × sequence_length"""
default = 0.0
[params.tokens_per_iteration]
doc = "tokens per iteration and GPU; 0: unknown"
default = 0
[params.arithmetic]
doc = "peak that the conventions by parameters use; empty: by the data type in config"
choices = ["", "fp32", "tf32", "fp16", "bf16", "fp8", "fp4"]
default = ""
[params.passes]
doc = "training: forward and backward; forward: a third of it"
choices = ["training", "forward"]
default = "training"
[columns]
device_id = "device; NULL when unknown"
iteration = "iteration; NULL unless by=iteration"
convention = """shapes: FLOP of the operators executed. 6N: all active parameters. 6N + 12LdS:
    without embedding, with full attention. causal: without embedding, attention to half of the
    sequence, or to the window or document"""
flop_per_token = {unit = "FLOP", doc = "FLOP of the passes; NULL for shapes if tokens are unknown"}
model_flop = """FLOP of the model in the window or iteration, without repeated
    work; NULL when unknown"""
executed_flop = "with repeated work; NULL for conventions by parameters"
elapsed_ns = "length of the window or iteration on the device"
samples_per_s = {unit = "sample/s", doc = """batch size × iterations ÷ elapsed; NULL without batch
    size or iterations"""}
tokens_per_s = {unit = "token/s", doc = "tokens per second and GPU; NULL when unknown"}
arithmetic = "data types of the peak: fp32, tf32, fp16, bf16, fp8, fp4, joined by +"
peak_flops = "dense peak of the device; of several data types, the FLOP-weighted harmonic mean"
mfu_pct = "FLOP of the model ÷ (peak × elapsed); NULL if reason explains it"
hfu_pct = "executed FLOP ÷ (peak × elapsed); NULL if unknown, or reason explains it"
covered_pct = "share of the kernel time with FLOP from shapes; NULL for the other conventions"
evidence = "modelled"
measured_over = "steady state, all iterations or whole trace"
reason = "why mfu_pct is NULL"
[plot]
kind = "grouped_barh"
x = ["trace_id", "device_id", "pid", "iteration"]
y = ["mfu_pct", "hfu_pct"]
series = "convention"
*/
WITH
setting AS (
    SELECT getvariable('by') AS by_what,
        nullif(getvariable('config'), '') AS config,
        nullif(getvariable('sequence_length'), 0) AS sequence,
        coalesce(nullif(getvariable('document_tokens'), 0), sequence) AS document,
        nullif(getvariable('tokens_per_s'), 0) AS tokens_per_s,
        nullif(getvariable('tokens_per_iteration'), 0) AS iteration_tokens,
        nullif(getvariable('arithmetic'), '') AS arithmetic,
        if(getvariable('passes') = 'forward', 3.0, 1.0) AS part
),
-- No row without a file; several if the path is a pattern.
file AS (
    SELECT coalesce(json_extract(text, '$.text_config'), text) AS c
    FROM (
        SELECT CASE WHEN json_valid(content) THEN content::JSON END AS text
        FROM read_text(getvariable('config'))
    )
    QUALIFY count(*) OVER () = 1
),
field AS (
    SELECT c,
        TRY_CAST(coalesce(c->>'hidden_size', c->>'n_embd') AS BIGINT) AS h,
        TRY_CAST(coalesce(c->>'num_hidden_layers', c->>'n_layer') AS BIGINT) AS layers,
        TRY_CAST(coalesce(c->>'num_attention_heads', c->>'n_head') AS BIGINT) AS heads,
        coalesce(TRY_CAST(c->>'num_key_value_heads' AS BIGINT), heads) AS kv_heads,
        coalesce(TRY_CAST(c->>'head_dim' AS BIGINT), h // heads) AS d,
        coalesce(TRY_CAST(c->>'intermediate_size' AS BIGINT), TRY_CAST(c->>'n_inner' AS BIGINT),
            if(c->>'model_type' = 'gpt2', 4 * h, NULL)) AS ffn,
        TRY_CAST(c->>'vocab_size' AS BIGINT) AS vocabulary,
        TRY_CAST(coalesce(
            c->>'num_experts', c->>'num_local_experts', c->>'n_routed_experts'
        ) AS BIGINT) AS experts,
        TRY_CAST(c->>'num_experts_per_tok' AS BIGINT) AS active,
        coalesce(TRY_CAST(c->>'moe_intermediate_size' AS BIGINT), ffn) AS expert_ffn,
        coalesce(TRY_CAST(c->>'shared_expert_intermediate_size' AS BIGINT),
            TRY_CAST(c->>'n_shared_experts' AS BIGINT) * expert_ffn, 0) AS shared_ffn,
        -- Networks with a gate have three matrices, others two.
        if(c->>'model_type' IN ('gpt2', 'gpt_neox', 'opt', 'phi', 'falcon', 'starcoder2'), 2, 3)
            AS matrices,
        CASE WHEN experts IS NULL THEN 0
             ELSE (layers - coalesce(TRY_CAST(c->>'first_k_dense_replace' AS BIGINT), 0))
                 // coalesce(TRY_CAST(c->>'decoder_sparse_step' AS BIGINT), 1)
                 - coalesce(json_array_length(c->'mlp_only_layers'), 0) END AS moe_layers,
        CASE WHEN c->>'use_sliding_window' = 'false' THEN NULL
             ELSE TRY_CAST(c->>'sliding_window' AS BIGINT) END AS window_tokens,
        coalesce(
            len(list_filter(from_json(c->'layer_types', '["VARCHAR"]'),
                lambda x: x = 'sliding_attention')),
            CASE WHEN window_tokens IS NULL THEN 0
                 WHEN c->>'use_sliding_window' = 'true'
                 THEN greatest(layers - coalesce(TRY_CAST(c->>'max_window_layers' AS BIGINT), 0), 0)
                 ELSE layers END) AS sliding_layers,
        coalesce(TRY_CAST(c->>'tie_word_embeddings' AS BOOLEAN), matrices = 2) AS is_tied,
        CASE coalesce(c->>'torch_dtype', c->>'dtype') WHEN 'bfloat16' THEN 'bf16'
            WHEN 'float16' THEN 'fp16' WHEN 'float32' THEN 'fp32' END AS data_type
    FROM file WHERE c IS NOT NULL
),
-- Parameters that a token uses, without the embedding, which is a look-up. Biases are left out.
model AS (
    SELECT *, layers * (2 * h * heads * d + 2 * h * kv_heads * d)
            + (layers - moe_layers) * matrices * h * ffn
            + if(moe_layers = 0, 0, moe_layers
                * (matrices * h * (active * expert_ffn + shared_ffn) + h * experts))
            + (2 * layers + 1) * h
            + if(starts_with(c->>'model_type', 'qwen3'), layers * 2 * d, 0)
            + vocabulary * h AS parameters,
        parameters + if(is_tied, 0, vocabulary * h) AS all_parameters,
        -- Of D tokens, token i attends to i, or to W of a window: D/2 and W - W²/2D on average.
        CASE WHEN sliding_layers > 0 AND window_tokens < document
             THEN window_tokens - window_tokens * window_tokens / (2.0 * document)
             ELSE document / 2.0 END AS window_keys,
        CASE WHEN parameters IS NULL
             THEN 'config lacks hidden_size, num_hidden_layers or another size'
             WHEN c->>'kv_lora_rank' IS NOT NULL
             THEN 'multi-head latent attention has no formula' END AS unfit
    FROM field, setting
),
counted AS (
    SELECT convention, unfit, data_type, CASE WHEN unfit IS NULL THEN flop_per_token / part END
        AS flop_per_token
    FROM (
        SELECT '6N' AS convention, 6 * all_parameters AS flop_per_token, unfit, data_type,
            part
        FROM model
        UNION ALL
        SELECT '6N + 12LdS', 6 * parameters + 12 * layers * heads * d * sequence, unfit,
            data_type, part
        FROM model
        UNION ALL
        SELECT 'causal', 6 * parameters + 12 * heads * d
            * ((layers - sliding_layers) * document / 2.0 + sliding_layers * window_keys),
            unfit, data_type, part
        FROM model
    )
    UNION ALL
    SELECT '6N', 'config is missing, not JSON, or several files', NULL, NULL
    FROM setting WHERE config IS NOT NULL AND (SELECT count(c) FROM file) = 0
),
span AS (
    SELECT trace_id, coalesce(process_id, -1) AS process_id, coalesce(device_id, -1) AS device_id,
        NULL::BIGINT AS iteration, iterations, elapsed_ns, measured_over
    FROM analysis_window, setting WHERE by_what = 'trace'
    UNION ALL
    SELECT t.trace_id, t.process_id, t.device_id, t.iteration, 1, sum(t.duration_ns)::BIGINT,
        any_value(w.measured_over)
    FROM device_timeline t
    JOIN analysis_window w
        ON  w.trace_id = t.trace_id AND coalesce(w.process_id, -1) = t.process_id
        AND coalesce(w.device_id, -1) = t.device_id
    CROSS JOIN setting WHERE by_what = 'iteration' AND t.iteration IS NOT NULL
    GROUP BY ALL
),
rated AS (
    SELECT s.*, t.batch_size * s.iterations / nullif(s.elapsed_ns, 0) * 1e9 AS samples_per_s,
        coalesce(v.tokens_per_s,
            coalesce(v.iteration_tokens, t.batch_size * v.sequence) * s.iterations
                / nullif(s.elapsed_ns, 0) * 1e9) AS tokens_per_s
    FROM span s JOIN trace t USING (trace_id) CROSS JOIN setting v
),
evaluated AS (
    SELECT r.*, 'shapes' AS convention, 0 AS position, f.model_flop, f.executed_flop,
        f.model_flop / nullif(r.tokens_per_s * r.elapsed_ns / 1e9, 0) AS flop_per_token,
        f.precision AS arithmetic, f.executed_flop / nullif(f.executed_ns, 0) * 1e9 AS peak_flops,
        100.0 * f.model_ns / nullif(r.elapsed_ns, 0) AS mfu_pct,
        100.0 * f.executed_ns / nullif(r.elapsed_ns, 0) AS hfu_pct, f.covered_pct,
        CASE WHEN f.executed_flop IS NULL
             THEN 'no FLOP from shapes on this device; record them with record_shapes=True'
             WHEN f.precision IS NULL THEN 'the data types of the inputs are not recorded'
             WHEN f.executed_ns IS NULL THEN 'peak of this device unknown' END AS why_not
    FROM rated r
    LEFT JOIN _device_flop f
        ON  f.trace_id = r.trace_id AND f.process_id = r.process_id
        AND f.device_id = r.device_id AND f.iteration IS NOT DISTINCT FROM r.iteration
    UNION ALL BY NAME
    SELECT r.*, c.convention, c.flop_per_token,
        CASE c.convention WHEN '6N' THEN 1 WHEN 'causal' THEN 3 ELSE 2 END AS position,
        c.flop_per_token * r.tokens_per_s * r.elapsed_ns / 1e9 AS model_flop,
        coalesce(v.arithmetic, c.data_type) AS arithmetic,
        CASE coalesce(v.arithmetic, c.data_type)
            WHEN 'fp32' THEN p.peak_fp32_flops WHEN 'tf32' THEN p.peak_tensor_tf32_flops
            WHEN 'fp16' THEN p.peak_tensor_fp16_flops WHEN 'bf16' THEN p.peak_tensor_bf16_flops
            WHEN 'fp8' THEN p.peak_tensor_fp8_flops WHEN 'fp4' THEN p.peak_tensor_fp4_flops
        END AS peak_flops,
        100.0 * c.flop_per_token * r.tokens_per_s / peak_flops AS mfu_pct,
        CASE WHEN c.unfit IS NOT NULL THEN c.unfit
             WHEN c.flop_per_token IS NULL THEN 'set sequence_length'
             WHEN r.tokens_per_s IS NULL THEN 'set tokens_per_s or tokens_per_iteration'
             WHEN coalesce(v.arithmetic, c.data_type) IS NULL THEN 'set arithmetic'
             WHEN peak_flops IS NULL THEN 'peak of this device unknown' END AS why_not
    FROM rated r CROSS JOIN counted c CROSS JOIN setting v
    LEFT JOIN device_peak p
        ON  p.trace_id = r.trace_id AND p.device_id = r.device_id
        AND (p.process_id IS NULL OR p.process_id = r.process_id)
)
SELECT j.trace_id, p.pid, nullif(j.device_id, -1) AS device_id, j.iteration, j.convention,
    j.flop_per_token, j.model_flop, j.executed_flop, j.elapsed_ns, j.samples_per_s, j.tokens_per_s,
    j.arithmetic, j.peak_flops,
    -- Rounding keeps a value of exactly 100 % below the limit.
    CASE WHEN j.why_not IS NULL AND round(greatest(j.mfu_pct, j.hfu_pct), 6) <= 100
        THEN j.mfu_pct END AS mfu_pct,
    CASE WHEN j.why_not IS NULL AND round(greatest(j.mfu_pct, j.hfu_pct), 6) <= 100
        THEN j.hfu_pct END AS hfu_pct,
    j.covered_pct, 'modelled' AS evidence, j.measured_over,
    coalesce(j.why_not, CASE WHEN round(greatest(j.mfu_pct, j.hfu_pct), 6) > 100
        THEN 'above the physical peak (' || round(greatest(j.mfu_pct, j.hfu_pct), 1)
            || ' %): FLOP, tokens, peak or times are wrong' END) AS reason
FROM evaluated j
LEFT JOIN process p ON p.trace_id = j.trace_id AND p.process_id = j.process_id
ORDER BY j.trace_id, p.pid, j.process_id, j.device_id, j.iteration NULLS FIRST, j.position
