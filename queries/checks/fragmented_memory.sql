/*
title    = "Fragmented memory"
question = """How much of the memory that the allocator holds is free between live blocks, at the
    peak and at the end of the recording?"""
source   = """free bytes of segments with live blocks ÷ held bytes: PyTorch cannot return such
    segments to the device, and reuses them only for requests that fit; expandable segments are left
    out"""
grain    = "trace: the device with the largest share"
needs    = ["memory_event"]
optional = [
    "_relevant_memory", "_peak_segment", "memory_running", "memory_segment", "memory_block",
    "trace",
]
reduce   = "concat"
[check]
rule = "MEM01"
scope = "trace"
thresholds = "proposed"
advice = """set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, and avoid tensors of varying sizes
    (fixed sequence lengths, a last batch of the same size); tbd-trace query fragmentation --set
    by=pool shows the segments"""
collect = """a snapshot of PyTorch's allocator with its history
    (torch.cuda.memory._record_memory_history() before training, then _dump_snapshot(FILE))"""
[params.max_fragmented_pct]
doc = "maximum share of the held bytes that is free between live blocks, in percent"
default = 15.0
[params.min_fragmented_mb]
doc = """minimum free memory between live blocks that is evaluated, 2^20 bytes; small programs fill
    segments of 20 MiB only partly"""
default = 128.0
*/
WITH
setting AS (
    SELECT getvariable('max_fragmented_pct')::DOUBLE AS max_fragmented_pct,
        getvariable('min_fragmented_mb')::DOUBLE * 1048576 AS min_bytes
),
peak AS (
    SELECT space, sum(bytes) AS held_bytes,
        coalesce(sum(bytes - live_bytes) FILTER (live_bytes > 0), 0) AS free_bytes
    FROM _peak_segment GROUP BY space
),
-- Without segments, the free bytes at the peak have a bound: all held bytes that are not live.
bound AS (
    SELECT j.space, r.reserved_bytes AS held_bytes,
        r.reserved_bytes - r.requested_bytes AS free_bytes
    FROM _relevant_memory AS j
    LEFT JOIN memory_running AS r
        ON r.space = j.space AND r.sequence = j.peak_sequence
        AND r.reserved_bytes >= r.requested_bytes
    WHERE j.space NOT IN (SELECT space FROM peak)
),
block AS (
    SELECT trace_id, process_id, device_id, segment_address,
        sum(bytes) FILTER (state = 'inactive') AS free_bytes
    FROM memory_block
    GROUP BY ALL
    HAVING bool_or(state LIKE 'active%')
),
final AS (
    SELECT hash(s.trace_id, s.process_id, s.device_id, s.allocator, NULL::VARCHAR) AS space,
        sum(s.total_bytes) AS held_bytes,
        coalesce(sum(b.free_bytes) FILTER (s.is_expandable IS NOT TRUE), 0) AS free_bytes
    FROM memory_segment AS s
    LEFT JOIN block AS b
        ON b.trace_id = s.trace_id AND b.process_id IS NOT DISTINCT FROM s.process_id
        AND b.device_id IS NOT DISTINCT FROM s.device_id AND b.segment_address = s.address
    GROUP BY ALL
    HAVING sum(s.total_bytes) > 0
),
instant AS (
    SELECT space, 'at the peak' AS moment, true AS is_exact, * EXCLUDE (space) FROM peak
    UNION ALL
    SELECT space, 'at the peak', false, held_bytes, free_bytes FROM bound
    UNION ALL
    SELECT space, 'at the end of the recording', true, held_bytes, free_bytes FROM final
),
measured AS (
    SELECT j.trace_id, j.label, j.why_unknown, i.* EXCLUDE (space), t.*,
        100.0 * i.free_bytes / nullif(i.held_bytes, 0) AS free_pct,
        free_pct > t.max_fragmented_pct AND i.free_bytes >= t.min_bytes AS is_above,
        coalesce(list_contains(
            r.notes,
            'reserved bytes are those of a model of PyTorch''s allocator with default settings'
        ), false) AS is_modelled
    FROM _relevant_memory AS j
    CROSS JOIN setting AS t
    JOIN trace AS r ON r.trace_id = j.trace_id
    JOIN instant AS i ON i.space = j.space
),
evaluated AS (
    SELECT *,
        CASE
            WHEN why_unknown IS NOT NULL THEN why_unknown
            WHEN held_bytes IS NULL
                THEN 'the bytes that the allocator held at the peak were not recorded'
            WHEN is_above AND NOT is_exact THEN format(
                '{} of the {} that the allocator holds at the peak are free, but the trace does '
                    || 'not show in which segments',
                format_bytes(free_bytes::BIGINT), format_bytes(held_bytes::BIGINT))
        END AS why_not
    FROM measured
)
SELECT trace_id,
    CASE WHEN why_not IS NOT NULL THEN 'not evaluable' WHEN is_above THEN 'finding'
         ELSE 'pass' END AS verdict,
    -- At the end, later iterations can reuse the free memory.
    CASE WHEN verdict <> 'finding' THEN NULL WHEN moment = 'at the peak' THEN 'warning'
         ELSE 'note' END AS severity,
    CASE WHEN why_not IS NULL THEN free_pct END AS value,
    max_fragmented_pct AS threshold, '%' AS unit,
    CASE WHEN why_not IS NOT NULL THEN NULL WHEN is_modelled THEN 'modelled'
         ELSE 'allocator' END AS evidence,
    label || CASE
        WHEN why_not IS NOT NULL THEN why_not
        ELSE format(
                '{}{} of the {} that the allocator holds {} ({:.1f} %) are free {}',
                CASE WHEN is_exact THEN '' ELSE 'at most ' END,
                format_bytes(free_bytes::BIGINT), format_bytes(held_bytes::BIGINT), moment,
                free_pct,
                CASE WHEN is_exact THEN 'in segments with live blocks' ELSE '' END)
    END AS reason,
    CASE WHEN verdict = 'finding' AND moment <> 'at the peak'
        THEN 'ignore it if later iterations reuse the memory (compare peak_reserved_bytes and '
            || 'peak_requested_bytes of tbd-trace query memory_peak); otherwise set '
            || 'PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True' END AS advice
FROM evaluated
QUALIFY row_number() OVER (
    PARTITION BY trace_id
    ORDER BY list_position(['pass', 'not evaluable', 'finding'], verdict) DESC,
        severity = 'warning' DESC NULLS LAST, free_pct DESC NULLS LAST, label, moment) = 1
ORDER BY trace_id
