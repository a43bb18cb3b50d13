/*
title    = "Iterations"
question = "How long did each iteration take, and which of them are stable?"
source   = "sampling rule of Zhu et al. 2018 made explicit: the longest suffix without trend, with little spread, without allocator growth, without new kernels"
grain    = "one iteration of one process"
needs    = ["op_scope"]
optional = ["iteration_mark", "kernel_period", "api_call"]
[params.max_cv_pct]
doc = "largest coefficient of variation of the periods in the stable window, in percent"
default = 5.0
[params.min_iterations]
doc = "fewest iterations that make a stable window"
default = 3
[columns.trace_id]
doc = "the trace"
[columns.process_id]
doc = "key of the process"
[columns.iteration]
doc = "number of the iteration in its process, from 0 in order of time"
[columns.label]
doc = "text of the range or mark, or first kernel of the period"
[columns.start_ns]
unit = "ns"
doc = "start on the host (kernel order without launch records: on the GPU)"
[columns.end_ns]
unit = "ns"
doc = "end on the host"
[columns.host_ns]
unit = "ns"
doc = "end - start on the host"
[columns.gpu_start_ns]
unit = "ns"
doc = "start of the first GPU operation launched in it"
[columns.gpu_end_ns]
unit = "ns"
doc = "end of the last GPU operation launched in it"
[columns.gpu_ns]
unit = "ns"
doc = "GPU-projected span: end of the last operation launched in it minus start of the first; NULL without operations"
[columns.period_ns]
unit = "ns"
doc = "start of the next iteration minus start of this one, on the host; by kernel order on the GPU, since the host may run far ahead of it; NULL for the last"
[columns.kernels]
doc = "kernels launched in it; a graph traced as a whole counts as none; NULL where the trace has no GPU work"
[columns.kernel_ns]
unit = "ns"
doc = "sum of their durations; NULL where the trace has no GPU work"
[columns.thread_id]
doc = "thread that marked it, or whose launches show the period"
[columns.method]
doc = "nvtx range, nvtx mark or kernel order"
[columns.confidence]
doc = "1 for the program's own marks; for kernel order the share of kernels in identical periods"
[columns.in_window]
doc = "the iteration is in the stable window"
[columns.dropped]
doc = "why it is not; NULL in the window"
*/
WITH
boundary AS (
    SELECT trace_id, process_id, iteration, label, start_ns, end_ns, thread_id, method,
        1.0 AS confidence
    FROM iteration_mark
    UNION ALL
    SELECT trace_id, process_id, iteration, label, start_ns, end_ns, thread_id, 'kernel order',
        confidence
    FROM kernel_period
),
work AS (
    SELECT trace_id, process_id, iteration,
        min(start_ns) AS gpu_start_ns, max(end_ns) AS gpu_end_ns,
        count(*) FILTER (op_kind = 'kernel') AS kernels,
        coalesce(sum(duration_ns) FILTER (op_kind = 'kernel'), 0)::BIGINT AS kernel_ns
    FROM op_scope WHERE iteration IS NOT NULL
    GROUP BY ALL
),
timed AS (
    SELECT b.*, b.end_ns - b.start_ns AS host_ns, w.gpu_start_ns, w.gpu_end_ns,
        w.gpu_end_ns - w.gpu_start_ns AS gpu_ns,
        CASE WHEN b.method = 'kernel order'
             THEN lead(w.gpu_start_ns) OVER in_process - w.gpu_start_ns
             ELSE lead(b.start_ns) OVER in_process - b.start_ns END AS period_ns,
        CASE WHEN o.trace_id IS NOT NULL THEN coalesce(w.kernels, 0) END AS kernels,
        CASE WHEN o.trace_id IS NOT NULL THEN coalesce(w.kernel_ns, 0) END AS kernel_ns
    FROM boundary b
    LEFT JOIN work w
        ON  w.trace_id = b.trace_id AND w.process_id IS NOT DISTINCT FROM b.process_id
        AND w.iteration = b.iteration
    LEFT JOIN (SELECT DISTINCT trace_id FROM op_scope) o ON o.trace_id = b.trace_id
    WINDOW in_process AS (PARTITION BY b.trace_id, b.process_id ORDER BY b.iteration)
),
-- Iterations that show the program still warming up: everything up to the last of them is dropped.
new_kernel AS (
    SELECT trace_id, process_id, first_iteration AS iteration
    FROM (SELECT trace_id, process_id, name,
              arg_min(coalesce(iteration, -1), start_ns) AS first_iteration
          FROM op_scope WHERE op_kind = 'kernel' GROUP BY ALL)
    WHERE first_iteration >= 0
    GROUP BY ALL
),
growth AS (
    SELECT t.trace_id, t.process_id, t.iteration
    FROM timed t
    JOIN api_call a
        ON  a.trace_id = t.trace_id AND a.process_id IS NOT DISTINCT FROM t.process_id
        AND a.start_ns >= t.start_ns AND a.start_ns < t.end_ns
    WHERE a.api = 'cuda' AND regexp_matches(a.name, '^(cudaMalloc|cudaFree|cuMemAlloc|cuMemFree)')
      AND NOT regexp_matches(a.name, 'Host|Array|Managed|Pool|Async')
    GROUP BY ALL
    HAVING count(*) FILTER (regexp_matches(a.name, 'Alloc|Malloc'))
         > count(*) FILTER (contains(a.name, 'Free'))
),
warming AS (
    SELECT t.*,
        CASE WHEN k.iteration IS NOT NULL THEN 'first use of a kernel'
             WHEN g.iteration IS NOT NULL THEN 'allocator growth' END AS warm_up
    FROM timed t
    LEFT JOIN new_kernel k
        ON  k.trace_id = t.trace_id AND k.process_id IS NOT DISTINCT FROM t.process_id
        AND k.iteration = t.iteration
    LEFT JOIN growth g
        ON  g.trace_id = t.trace_id AND g.process_id IS NOT DISTINCT FROM t.process_id
        AND g.iteration = t.iteration
),
-- Where the profiler stopped recording the GPU before the program ended, the iteration that it
-- stopped in and those that follow show less work than there was.
recorded AS (
    SELECT *,
        CASE WHEN last_work < last_iteration THEN last_work - 1 ELSE last_iteration END AS last_whole
    FROM (
        SELECT *,
            max(iteration) OVER whole AS last_iteration,
            coalesce(max(iteration) FILTER (gpu_ns IS NOT NULL) OVER whole, max(iteration) OVER whole)
                AS last_work
        FROM warming
        WINDOW whole AS (PARTITION BY trace_id, process_id)
    )
),
settled AS (
    SELECT *,
        coalesce(max(iteration) FILTER (warm_up IS NOT NULL AND iteration <= last_whole) OVER whole, -1)
            AS last_warm_up,
        max(iteration) FILTER (period_ns IS NOT NULL AND iteration <= last_whole) OVER whole
            AS last_period
    FROM recorded
    WINDOW whole AS (PARTITION BY trace_id, process_id)
),
-- The spread and trend of every suffix. Long runs are thinned to about 200 iterations, so that the
-- pairwise slopes stay affordable; the window's first iteration is then exact to the thinning.
thinned AS (
    SELECT trace_id, coalesce(process_id, -1) AS process_id, iteration, period_ns
    FROM settled
    WHERE period_ns IS NOT NULL AND iteration > last_warm_up AND iteration <= last_period
      AND (last_period - iteration) % ceil((last_period + 1) / 200.0) = 0
),
spread AS (
    SELECT trace_id, process_id, iteration AS first_iteration,
        count(*) OVER suffix AS n,
        avg(period_ns) OVER suffix AS mean_ns,
        stddev_samp(period_ns) OVER suffix AS stddev_ns
    FROM thinned
    WINDOW suffix AS (
        PARTITION BY trace_id, process_id ORDER BY iteration DESC ROWS UNBOUNDED PRECEDING)
),
slope AS (
    SELECT a.trace_id, a.process_id, a.iteration,
        (b.period_ns - a.period_ns) / (b.iteration - a.iteration) AS slope
    FROM thinned a
    JOIN thinned b USING (trace_id, process_id)
    WHERE b.iteration > a.iteration
),
theil_sen AS (
    SELECT s.trace_id, s.process_id, s.first_iteration, median(p.slope) AS slope
    FROM spread s
    JOIN slope p
        ON  p.trace_id = s.trace_id AND p.process_id = s.process_id
        AND p.iteration >= s.first_iteration
    WHERE s.stddev_ns <= coalesce(getvariable('max_cv_pct'), 5.0) / 100 * s.mean_ns
    GROUP BY ALL
),
window_start AS (
    SELECT s.trace_id, s.process_id, min(s.first_iteration) AS first_iteration
    FROM spread s
    JOIN theil_sen t USING (trace_id, process_id, first_iteration)
    JOIN (SELECT trace_id, coalesce(process_id, -1) AS process_id, max(last_period) AS last_period
          FROM settled GROUP BY ALL) e USING (trace_id, process_id)
    WHERE abs(t.slope) * (e.last_period - s.first_iteration + 1) <= s.stddev_ns
      AND e.last_period - s.first_iteration + 1 >= coalesce(getvariable('min_iterations'), 3)
    GROUP BY ALL
)
SELECT s.trace_id, s.process_id, s.iteration, s.label, s.start_ns, s.end_ns, s.host_ns,
    s.gpu_start_ns, s.gpu_end_ns, s.gpu_ns, s.period_ns, s.kernels, s.kernel_ns, s.thread_id,
    s.method, s.confidence,
    coalesce(s.iteration BETWEEN w.first_iteration AND s.last_whole, false) AS in_window,
    CASE
        WHEN in_window THEN NULL
        WHEN s.iteration > s.last_whole THEN 'GPU work not fully recorded'
        WHEN s.warm_up IS NOT NULL THEN s.warm_up
        WHEN s.iteration < s.last_warm_up THEN 'before the end of warm-up'
        WHEN w.first_iteration IS NULL THEN 'no stable window'
        ELSE 'trend or spread'
    END AS dropped
FROM settled s
LEFT JOIN window_start w
    ON w.trace_id = s.trace_id AND w.process_id = coalesce(s.process_id, -1)
