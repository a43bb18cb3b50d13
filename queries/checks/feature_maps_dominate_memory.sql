/*
title    = "Feature maps dominate the memory"
question = "Do feature maps take most of the memory at the peak?"
source   = """Zhu et al. 2018, observation 11 (paraphrased from memory): feature maps ÷ (weights +
    weight gradients + feature maps + workspace + dynamic), requested bytes live at the peak; the
    gradients of feature maps count as feature maps"""
grain    = "trace: the memory space with the largest share"
needs    = ["memory_event"]
optional = ["_relevant_memory", "allocation"]
reduce   = "concat"
[check]
rule = "OBS11"
scope = "trace"
thresholds = "recalled"
advice = """to train with a larger batch or model, recompute feature maps (activation checkpointing,
    torch.utils.checkpoint), keep them in reduced precision, or use a smaller batch; tbd-trace query
    memory_by_layer shows the layers"""
collect = """one whole training iteration with the classes of allocations (tbd-trace collect MODEL
    --memory), or a snapshot of PyTorch that begins before the model is built"""
[params.min_feature_map_pct]
doc = "minimum share of the live bytes at the peak for feature maps to dominate, in percent"
default = 50.0
[params.paper_low_pct]
doc = "lowest share in the paper, in percent; the reason compares with it"
default = 62.0
[params.paper_high_pct]
doc = "highest share in the paper, in percent"
default = 89.0
*/
WITH
setting AS (
    SELECT getvariable('min_feature_map_pct')::DOUBLE AS min_feature_map_pct,
        getvariable('paper_low_pct')::DOUBLE AS paper_low_pct,
        getvariable('paper_high_pct')::DOUBLE AS paper_high_pct
),
live AS (
    SELECT a.space, a.class, a.layer, a.evidence, a.requested_bytes AS bytes,
        a.class IN ('feature_map', 'activation_gradient') AS is_map
    FROM allocation AS a
    JOIN _relevant_memory AS j USING (space)
    -- Bytes outside the allocator belong to none of the paper's classes.
    WHERE a.class <> 'untracked' AND coalesce(a.born_sequence, -1) <= j.peak_sequence
        AND coalesce(a.died_sequence > j.peak_sequence, true)
),
summed AS (
    SELECT space, sum(bytes) AS live_bytes,
        coalesce(sum(bytes) FILTER (is_map), 0) AS map_bytes,
        coalesce(sum(bytes) FILTER (class = 'unknown'), 0) AS unknown_bytes,
        sum(bytes) FILTER (
            is_map OR class IN ('weight', 'weight_gradient', 'workspace', 'temporary')
        ) AS tensor_bytes,
        string_agg(DISTINCT evidence, ',' ORDER BY evidence) FILTER (is_map) AS evidence
    FROM live GROUP BY space
),
largest_layer AS (
    SELECT space, layer, sum(bytes) AS layer_bytes
    FROM live WHERE is_map AND layer IS NOT NULL
    GROUP BY space, layer
    QUALIFY row_number() OVER (PARTITION BY space ORDER BY layer_bytes DESC, layer) = 1
),
shared AS (
    SELECT j.trace_id, j.label, j.peak_during, s.*, l.layer, t.*,
        100.0 * s.map_bytes / s.live_bytes AS map_pct,
        -- Bytes of unknown class could all be feature maps.
        100.0 * (s.map_bytes + s.unknown_bytes) / s.live_bytes AS most_pct,
        100.0 * s.map_bytes / s.tensor_bytes AS tensor_pct,
        100.0 * l.layer_bytes / s.map_bytes AS layer_pct,
        CASE
            WHEN j.why_unknown IS NOT NULL THEN j.why_unknown
            WHEN NOT j.has_backward
                THEN 'the recording has no backward pass, for which feature maps are kept'
            WHEN map_pct < t.min_feature_map_pct AND most_pct >= t.min_feature_map_pct THEN format(
                'the class of {:.0f} % of the bytes at the peak is unknown',
                100.0 * s.unknown_bytes / s.live_bytes)
        END AS why_not
    FROM _relevant_memory AS j
    JOIN summed AS s USING (space)
    LEFT JOIN largest_layer AS l USING (space)
    CROSS JOIN setting AS t
)
SELECT trace_id,
    CASE WHEN why_not IS NOT NULL THEN 'not evaluable'
         WHEN map_pct >= min_feature_map_pct THEN 'finding' ELSE 'pass' END AS verdict,
    CASE WHEN verdict = 'finding' THEN 'note' END AS severity,
    CASE WHEN why_not IS NULL THEN map_pct END AS value,
    min_feature_map_pct AS threshold, '%' AS unit,
    CASE WHEN why_not IS NULL THEN coalesce(evidence, 'none') END AS evidence,
    label || CASE
        WHEN why_not IS NOT NULL THEN why_not
        ELSE format('feature maps and their gradients are {:.1f} % of the {} live at the peak{}',
                map_pct, format_bytes(live_bytes::BIGINT), peak_during)
            || CASE
                -- Unknown bytes are mostly weights and their state.
                WHEN unknown_bytes > 0.01 * live_bytes
                    THEN format(' ({:.1f} % are unknown)', 100.0 * unknown_bytes / live_bytes)
                ELSE coalesce(format(' ({:.1f} % without dynamic bytes)', tensor_pct), '')
            END
            || CASE
                WHEN verdict = 'pass' THEN ''
                WHEN map_pct < paper_low_pct THEN format(
                    ', below the {:.0f} to {:.0f} % of the paper', paper_low_pct, paper_high_pct)
                WHEN map_pct > paper_high_pct THEN format(
                    ', above the {:.0f} to {:.0f} % of the paper', paper_low_pct, paper_high_pct)
                ELSE format(
                    ', within the {:.0f} to {:.0f} % of the paper', paper_low_pct, paper_high_pct)
            END
            || CASE WHEN verdict = 'finding' AND layer IS NOT NULL THEN format(
                    '; {} makes {:.0f} % of them', layer, layer_pct) ELSE '' END
    END AS reason,
    NULL::VARCHAR AS advice
FROM shared
QUALIFY row_number() OVER (
    PARTITION BY trace_id
    ORDER BY list_position(['pass', 'not evaluable', 'finding'], verdict) DESC,
        map_pct DESC, live_bytes DESC, label) = 1
ORDER BY trace_id
