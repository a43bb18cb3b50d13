/*
title    = "Long kernels of low utilization"
question = """Do kernels with a large share of the time have a utilization below the mean of the
    trace?"""
source   = """Zhu et al. 2018, observation 8: the longest kernels whose utilization is below the
    mean; potential = share × (1 − utilization ÷ mean utilization)"""
grain    = "trace"
needs    = ["gpu_op"]
optional = ["trace", "kernel_utilization", "window_op", "kernel_class"]
reduce   = "concat"
[check]
rule = "OBS08"
scope = "trace"
thresholds = "proposed"
advice = """begin with the first of these kernels: try another algorithm or data layout, a fused
    kernel, or a larger batch; tbd-trace query low_util_kernels lists all of them"""
collect = """hardware counters in addition to the timeline, in a capture directory (tbd-trace
    collect writes both); without counters, the FLOP and bytes of a single kernel are unknown"""
[params.min_share_pct]
doc = "minimum share of the kernel time of a kernel that is evaluated, in percent"
default = 2.0
[params.kernels_named]
doc = "maximum number of kernels named in the reason"
default = 5
*/
WITH
setting AS (
    SELECT getvariable('min_share_pct')::DOUBLE AS min_share_pct,
        getvariable('kernels_named')::BIGINT AS kernels_named
),
-- If kernels on tensor cores take half of the time or more, FP32 counters miss most of the work:
-- evaluate the tensor pipe instead.
on_tensor_cores AS (
    SELECT o.trace_id,
        coalesce(sum(o.duration_ns) FILTER (c.tensor_core), 0) >= 0.5 * sum(o.duration_ns) AS mostly
    FROM window_op o
    JOIN kernel_class c ON c.trace_id = o.trace_id AND c.name = o.name
    WHERE o.op_kind = 'kernel'
    GROUP BY o.trace_id
),
counted AS (
    SELECT u.*, row_number() OVER (
        PARTITION BY u.trace_id ORDER BY u.total_ns DESC NULLS LAST, u.kernel_name) AS place,
        u.utilization < u.mean_utilization AND u.share_pct >= s.min_share_pct AS is_found
    FROM kernel_utilization u
    CROSS JOIN setting s
    JOIN on_tensor_cores t ON t.trace_id = u.trace_id
    WHERE u.precision = CASE WHEN t.mostly THEN 'tensor' ELSE 'fp32' END
),
measured AS (
    SELECT c.trace_id, any_value(c.precision) AS precision, any_value(c.measure) AS measure,
        count(*) FILTER (c.is_found) AS kernels,
        coalesce(max(c.share_pct) FILTER (c.is_found),
            max(c.share_pct) FILTER (c.utilization < c.mean_utilization), 0) AS longest_pct,
        sum(c.share_pct) FILTER (c.is_found) AS together_pct,
        sum(c.share_pct * (1 - c.utilization / c.mean_utilization))
            FILTER (c.is_found) AS potential_pct,
        any_value(c.mean_utilization) AS mean_utilization,
        array_to_string(list(
            format('{} ({:.1f} % of the time, utilization {:.1f})',
                -- Template arguments fill lines: 60 characters identify a kernel.
                CASE WHEN len(c.kernel_name) > 60
                     THEN c.kernel_name[:36] || '…' || right(c.kernel_name, 23)
                     ELSE c.kernel_name END,
                c.share_pct, c.utilization)
            ORDER BY c.place) FILTER (c.is_found)[:any_value(s.kernels_named)], ', ') AS named
    FROM counted c CROSS JOIN setting s
    GROUP BY c.trace_id
),
evaluated AS (
    SELECT t.trace_id, m.* EXCLUDE (trace_id), s.min_share_pct,
        CASE WHEN m.trace_id IS NULL
            THEN 'the trace has no hardware counters of the utilization of single kernels'
        END AS why_not,
        CASE m.measure WHEN 'FLOP' THEN '% of the peak' WHEN 'pipe' THEN '% of the cycles'
            ELSE 'of 10' END AS scale
    FROM trace t
    CROSS JOIN setting s
    LEFT JOIN measured m ON m.trace_id = t.trace_id
)
SELECT trace_id,
    CASE WHEN why_not IS NOT NULL THEN 'not evaluable' WHEN kernels > 0 THEN 'finding'
         ELSE 'pass' END AS verdict,
    CASE WHEN verdict = 'finding' THEN 'note' END AS severity,
    CASE WHEN why_not IS NULL THEN longest_pct END AS value,
    min_share_pct AS threshold, '%' AS unit,
    CASE WHEN why_not IS NULL THEN 'counter' END AS evidence,
    CASE
        WHEN why_not IS NOT NULL THEN why_not
        WHEN kernels = 0 THEN format(
            'no kernel below the mean {} utilization ({:.1f} {}) takes {:.1f} % of the kernel time',
            precision, mean_utilization, scale, min_share_pct)
        ELSE format(
                'kernels below the mean {} utilization ({:.1f} {}) take {:.1f} % of the kernel '
                    || 'time: {}',
                precision, mean_utilization, scale, together_pct, named)
            -- Levels of nvprof are ordinal: the time saved at the mean cannot be computed.
            || CASE WHEN measure = 'level' THEN ''
                ELSE format('; at the mean, they would save {:.1f} % of the kernel time',
                    potential_pct) END
    END AS reason,
    NULL::VARCHAR AS advice
FROM evaluated
ORDER BY trace_id
