/*
title    = "Iterations"
question = "How long did each iteration take, and which iterations are the steady state?"
source   = "warm-up is a prefix; all iterations after it are the steady state, including stalls"
grain    = "iteration of a process"
needs    = ["op_scope"]
optional = ["_iteration_boundary", "api_call", "kernel"]
[columns.trace_id]
doc = "the trace"
[columns.process_id]
doc = "key of the process"
[columns.iteration]
doc = "number of the iteration in its process, from 0 in order of time"
[columns.label]
doc = "text of the range or mark; with an anchor kernel, its name"
[columns.start_ns]
unit = "ns"
doc = "start on the host; on the GPU for an anchor kernel without launch records"
[columns.end_ns]
unit = "ns"
doc = "end on the host"
[columns.host_ns]
unit = "ns"
doc = "duration on the host"
[columns.gpu_start_ns]
unit = "ns"
doc = "start of the first GPU operation launched in the iteration"
[columns.gpu_end_ns]
unit = "ns"
doc = "end of the last GPU operation launched in the iteration"
[columns.gpu_ns]
unit = "ns"
doc = """GPU-projected span: end of the last operation launched in the iteration − start of the
    first; NULL without operations"""
[columns.period_ns]
unit = "ns"
doc = """start of the next iteration − start of this one, on the clock in column clock; NULL for the
    last"""
[columns.clock]
doc = """host: start to start on the host; gpu: first operation to first operation on the GPU, for
    iterations found by an anchor kernel, and if the host ran ahead of the GPU (host periods sum to
    over 5 % less than GPU periods). In that case host periods measure how fast work was queued"""
[columns.kernels]
doc = """kernels launched in the iteration, without graphs traced as a whole; NULL without GPU work
    in the trace"""
[columns.kernel_ns]
unit = "ns"
doc = "sum of kernel durations; NULL without GPU work in the trace"
[columns.thread_id]
doc = "thread that marked the iteration, or that launched the anchor kernel"
[columns.method]
doc = "nvtx range, nvtx mark or anchor kernel"
[columns.confidence]
doc = "1 for NVTX marks of the program; for an anchor kernel, its score (_iteration_anchor)"
[columns.is_whole]
doc = """true if its GPU work and the start of the next iteration, which ends its period, were
    recorded; the only iteration of a process counts as whole"""
[columns.warm_up]
doc = """sign of warm-up, inside or after the warm-up: first use of a kernel, allocator growth, slow
    start (over 10 % longer than every iteration after the slow start); NULL without one"""
[columns.in_window]
doc = """true if metrics include the iteration: it is whole, and in the steady state or there is no
    steady state"""
[columns.measured_over]
doc = """iterations of the process that metrics include: steady state, or all iterations if more
    than half show signs of warm-up"""
[columns.dropped]
doc = """reason for leaving it out: GPU work not fully recorded, next start not recorded (the last
    iteration), or its sign of warm-up; NULL otherwise"""
[advice]
missing = """
needs iterations: no NVTX range or mark matches iteration_pattern and the kernels show no period;
mark each iteration with NVTX, or use --set iteration_pattern=REGEX"""
timeline_only = true
*/
WITH
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
        lead(b.start_ns) OVER in_process - b.start_ns AS host_period_ns,
        lead(w.gpu_start_ns) OVER in_process - w.gpu_start_ns AS gpu_period_ns,
        CASE WHEN o.trace_id IS NOT NULL THEN coalesce(w.kernels, 0) END AS kernels,
        CASE WHEN o.trace_id IS NOT NULL THEN coalesce(w.kernel_ns, 0) END AS kernel_ns
    FROM _iteration_boundary b
    LEFT JOIN work w
        ON  w.trace_id = b.trace_id AND w.process_id IS NOT DISTINCT FROM b.process_id
        AND w.iteration = b.iteration
    LEFT JOIN (SELECT DISTINCT trace_id FROM op_scope) o ON o.trace_id = b.trace_id
    WINDOW in_process AS (PARTITION BY b.trace_id, b.process_id ORDER BY b.iteration)
),
-- The profiler may record the GPU for only a part of the run: iterations before the first and after
-- the last with GPU work are not whole, nor is the last one, whose end is the start of the next.
recorded AS (
    SELECT *,
        coalesce(min(iteration) FILTER (gpu_ns IS NOT NULL) OVER whole, min(iteration) OVER whole)
            AS first_work,
        coalesce(max(iteration) FILTER (gpu_ns IS NOT NULL) OVER whole, max(iteration) OVER whole)
            AS last_work
    FROM timed
    WINDOW whole AS (PARTITION BY trace_id, process_id)
),
clocked AS (
    SELECT *,
        iteration BETWEEN first_work AND greatest(first_work, last_work - 1) AS is_whole,
        -- GPU periods need a known, non-negative period of each whole iteration.
        CASE WHEN coalesce(
                bool_and(gpu_period_ns >= 0)
                    FILTER (is_whole AND host_period_ns IS NOT NULL) OVER whole
                AND count(gpu_period_ns) FILTER (is_whole) OVER whole
                    = count(*) FILTER (is_whole) OVER whole
                AND (method = 'anchor kernel'
                     OR sum(gpu_period_ns) FILTER (is_whole) OVER whole
                        > 1.05 * sum(host_period_ns) FILTER (is_whole) OVER whole), false)
             THEN 'gpu' ELSE 'host' END AS clock
    FROM recorded
    WINDOW whole AS (PARTITION BY trace_id, process_id)
),
paced AS (
    SELECT *, CASE clock WHEN 'gpu' THEN gpu_period_ns ELSE host_period_ns END AS period_ns
    FROM clocked
),
-- First use of each kernel name and launch configuration; new_kernel also marks first uses of a
-- name.
first_kernel AS (
    SELECT trace_id, process_id, name, arg_min(kernel_id, start_ns) AS kernel_id
    FROM kernel WHERE start_ns IS NOT NULL
    GROUP BY trace_id, process_id, name, grid_x, grid_y, grid_z, block_x, block_y, block_z
),
first_use AS (
    SELECT k.trace_id, k.process_id, k.name, o.start_ns, o.iteration
    FROM first_kernel k
    JOIN op_scope o ON o.trace_id = k.trace_id AND o.op_id = k.kernel_id AND o.op_kind = 'kernel'
),
new_kernel AS (
    SELECT trace_id, process_id, iteration, bool_or(is_first_of_name) AS is_new_name
    FROM (
        SELECT *, row_number() OVER (
            PARTITION BY trace_id, process_id, name ORDER BY start_ns, iteration) = 1
            AS is_first_of_name
        FROM first_use
    )
    WHERE iteration IS NOT NULL
    GROUP BY ALL
),
-- Iterations in which the allocator requests more device memory than it frees. Host memory, arrays
-- and pools are not allocated by the caching allocators of frameworks.
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
-- With inputs of varying size, most iterations have new configurations. Signs are therefore
-- computed by configuration and by name only; the second is used if the first finds no steady
-- state.
placed AS (
    SELECT p.*, r.by_name, p.iteration - p.first_work AS place,
        count(*) FILTER (p.is_whole) OVER whole AS number,
        CASE WHEN k.is_new_name OR (k.iteration IS NOT NULL AND NOT r.by_name)
                 THEN 'first use of a kernel'
             WHEN g.iteration IS NOT NULL THEN 'allocator growth' END AS seen
    FROM paced p
    CROSS JOIN (VALUES (false), (true)) r(by_name)
    LEFT JOIN new_kernel k
        ON  k.trace_id = p.trace_id AND k.process_id IS NOT DISTINCT FROM p.process_id
        AND k.iteration = p.iteration
    LEFT JOIN growth g
        ON  g.trace_id = p.trace_id AND g.process_id IS NOT DISTINCT FROM p.process_id
        AND g.iteration = p.iteration
    WINDOW whole AS (PARTITION BY p.trace_id, p.process_id, r.by_name)
),
-- Slow iterations at the start are warm-up if all after them are faster. If a slow one occurs
-- later, it is a stall. 1.1: usual variation is below 10 %.
slow_beginning AS (
    SELECT *,
        coalesce(min(place) FILTER (is_whole AND seen IS NULL AND NOT is_slow) OVER whole, number)
            AS slow_end
    FROM (
        SELECT *,
            coalesce(
                period_ns > 1.1
                    * max(period_ns) FILTER (is_whole AND 2 * place >= number) OVER whole, false)
            AS is_slow
        FROM placed WINDOW whole AS (PARTITION BY trace_id, process_id, by_name)
    )
    WINDOW whole AS (PARTITION BY trace_id, process_id, by_name)
),
signed AS (
    SELECT *,
        CASE WHEN seen IS NOT NULL THEN seen
             WHEN place < slow_end
                 AND period_ns > 1.1
                     * max(period_ns) FILTER (is_whole AND place >= slow_end) OVER whole
             THEN 'slow start' END AS sign
    FROM slow_beginning WINDOW whole AS (PARTITION BY trace_id, process_id, by_name)
),
-- Length of the prefix of iterations that all show a sign.
led AS (
    SELECT *,
        coalesce(min(place) FILTER (is_whole AND sign IS NULL) OVER whole, number) AS prefix
    FROM signed WINDOW whole AS (PARTITION BY trace_id, process_id, by_name)
),
-- At most half of the iterations can be warm-up.
settled AS (
    SELECT *, CASE WHEN 2 * prefix <= number THEN prefix END AS warm_ups
    FROM led
    QUALIFY by_name = coalesce(
        min(by_name) FILTER (warm_ups IS NOT NULL) OVER (PARTITION BY trace_id, process_id), false)
)
SELECT trace_id, process_id, iteration, label, start_ns, end_ns, host_ns, gpu_start_ns, gpu_end_ns,
    gpu_ns, period_ns, clock, kernels, kernel_ns, thread_id, method, confidence, is_whole,
    sign AS warm_up,
    is_whole AND place >= coalesce(warm_ups, 0) AS in_window,
    CASE WHEN warm_ups IS NULL THEN 'all iterations' ELSE 'steady state' END AS measured_over,
    CASE
        WHEN in_window THEN NULL
        WHEN iteration < first_work OR iteration > last_work
            OR (iteration = last_work AND host_period_ns IS NOT NULL)
            THEN 'GPU work not fully recorded'
        WHEN NOT is_whole THEN 'next start not recorded'
        ELSE sign
    END AS dropped
FROM settled
