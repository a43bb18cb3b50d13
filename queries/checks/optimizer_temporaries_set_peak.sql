/*
title    = "Optimizer temporaries set the peak"
question = "Would the peak be lower without the temporary tensors of the optimizer?"
source   = """highest live bytes at any event, with and without allocations of class
    optimizer_temporary"""
grain    = "trace: the memory space with the largest saving"
needs    = ["memory_event"]
optional = ["_relevant_memory", "allocation", "memory_running", "memory_space"]
reduce   = "concat"
[check]
rule = "MEM03"
scope = "trace"
thresholds = "proposed"
advice = """use a fused optimizer (fused=True), or foreach=False, which updates one weight at a
    time"""
collect = """one whole training iteration with the optimizer step (tbd-trace collect MODEL --memory,
    or a snapshot of PyTorch)"""
[params.max_temporary_pct]
doc = "maximum share of the peak that optimizer temporaries add, in percent"
default = 5.0
*/
WITH
setting AS (
    SELECT getvariable('max_temporary_pct')::DOUBLE AS max_temporary_pct
),
temporary AS (
    SELECT a.space, coalesce(a.born_sequence, -1) AS born, a.died_sequence AS died,
        a.requested_bytes AS bytes, a.evidence
    FROM allocation AS a
    JOIN _relevant_memory AS j USING (space)
    WHERE a.class = 'optimizer_temporary'
),
change AS (
    SELECT space, sequence, sum(bytes) AS bytes
    FROM (
        SELECT space, born AS sequence, bytes FROM temporary
        UNION ALL
        SELECT space, died, -bytes FROM temporary WHERE died IS NOT NULL
    )
    GROUP BY space, sequence
),
running AS (
    SELECT m.space, m.start_requested_bytes AS live_bytes, -1 AS sequence
    FROM memory_space AS m JOIN _relevant_memory AS j USING (space)
    UNION ALL
    SELECT r.space, r.requested_bytes, r.sequence
    FROM memory_running AS r JOIN _relevant_memory AS j USING (space)
),
without AS (
    SELECT r.space, r.sequence,
        r.live_bytes - coalesce(sum(c.bytes) OVER (
            PARTITION BY r.space ORDER BY r.sequence ROWS UNBOUNDED PRECEDING
        ), 0) AS live_bytes
    FROM running AS r
    LEFT JOIN change AS c ON c.space = r.space AND c.sequence = r.sequence
),
lower_peak AS (
    SELECT space, max(live_bytes)::BIGINT AS lower_bytes FROM without GROUP BY space
),
at_peak AS (
    SELECT t.space, sum(t.bytes) AS temporary_bytes,
        string_agg(DISTINCT t.evidence, ',' ORDER BY t.evidence) AS evidence
    FROM temporary AS t
    JOIN _relevant_memory AS j USING (space)
    WHERE t.born <= j.peak_sequence AND coalesce(t.died > j.peak_sequence, true)
    GROUP BY t.space
),
evaluated AS (
    SELECT j.trace_id, j.label, j.peak_bytes, j.peak_during, l.lower_bytes, t.max_temporary_pct,
        coalesce(a.temporary_bytes, 0) AS temporary_bytes, a.evidence,
        100.0 * (j.peak_bytes - l.lower_bytes) / j.peak_bytes AS saved_pct,
        CASE
            WHEN j.why_unknown IS NOT NULL THEN j.why_unknown
            WHEN NOT j.has_optimizer THEN 'the recording has no optimizer step'
        END AS why_not
    FROM _relevant_memory AS j
    JOIN lower_peak AS l USING (space)
    LEFT JOIN at_peak AS a USING (space)
    CROSS JOIN setting AS t
)
SELECT trace_id,
    CASE WHEN why_not IS NOT NULL THEN 'not evaluable'
         WHEN saved_pct > max_temporary_pct THEN 'finding' ELSE 'pass' END AS verdict,
    CASE WHEN verdict = 'finding' THEN 'warning' END AS severity,
    CASE WHEN why_not IS NULL THEN saved_pct END AS value,
    max_temporary_pct AS threshold, '%' AS unit,
    CASE WHEN why_not IS NULL THEN coalesce(evidence, 'allocator') END AS evidence,
    label || CASE
        WHEN why_not IS NOT NULL THEN why_not
        WHEN temporary_bytes = 0 THEN format(
            'no optimizer temporaries are live at the peak{} ({})',
            peak_during, format_bytes(peak_bytes))
        ELSE format(
            'optimizer temporaries take {} of the {} live at the peak{}; without them, the peak '
                || 'would be {} ({:.1f} % less)',
            format_bytes(temporary_bytes::BIGINT), format_bytes(peak_bytes), peak_during,
            format_bytes(lower_bytes), saved_pct)
    END AS reason,
    NULL::VARCHAR AS advice
FROM evaluated
QUALIFY row_number() OVER (
    PARTITION BY trace_id
    ORDER BY list_position(['pass', 'not evaluable', 'finding'], verdict) DESC,
        saved_pct DESC, peak_bytes DESC, label) = 1
ORDER BY trace_id
