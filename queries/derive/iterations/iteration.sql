/*
title    = "Iterations"
question = "How long did each iteration take, and which iterations are the steady state?"
source   = """warm-up is a prefix; all iterations after it are the steady state, including stalls,
    without the pauses between iterations (evaluation, suspension)"""
grain    = "iteration of a process"
needs    = ["op_scope"]
optional = ["_iteration_boundary", "api_call", "kernel"]
returns = [
    "trace_id", "process_id", "iteration", "label", "start_ns", "end_ns", "host_ns", "gpu_start_ns",
    "gpu_end_ns", "gpu_ns", "period_start_ns", "period_end_ns", "period_ns", "clock", "kernels",
    "kernel_ns", "thread_id", "method", "confidence", "is_whole", "warm_up", "in_window",
    "measured_over", "dropped",
]
[columns]
iteration = "number of the iteration in its process, from 0 in order of time"
start_ns = "start on the host; on the GPU for an anchor kernel without launch records"
end_ns = "end on the host"
host_ns = "duration on the host"
gpu_start_ns = "start of the first GPU operation launched in the iteration"
gpu_end_ns = "end of the last GPU operation launched in the iteration"
gpu_ns = """GPU-projected span: end of the last operation launched in the iteration − start of the
    first; NULL without operations"""
period_start_ns = """start of its period, on the clock in column clock: on the host, start_ns; of
    the first iteration, end of kernels launched before it, at most gpu_start_ns; on the GPU,
    gpu_start_ns"""
period_end_ns = """end of its period: start of the next period; of the last iteration, and before a
    pause, end of its range or of its GPU work, whichever is later; NULL if unknown"""
period_ns = "period_end_ns − period_start_ns; NULL if the end is unknown"
clock = """host: start to start on the host; gpu: first operation to first operation on the GPU, for
    iterations found by an anchor kernel, and if the host ran ahead of the GPU: host periods sum to
    over 5 % less than GPU periods, or GPU work begins after its iteration has ended on the host. In
    that case host periods measure how fast work was queued"""
kernels = """kernels launched in the iteration, without graphs traced as a whole; NULL without GPU
    work in the trace"""
kernel_ns = "sum of kernel durations; NULL without GPU work in the trace"
thread_id = "thread that marked the iteration, or that launched the anchor kernel"
confidence = "1 for NVTX marks of the program; for an anchor kernel, its score (_iteration_anchor)"
is_whole = """true if its GPU work and the end of its period were recorded. The last iteration is
    whole if its range ends where the next one would begin, and it has the usual number of
    kernels"""
warm_up = """sign of warm-up, inside or after the warm-up: first use of a kernel, allocator growth,
    slow start (over 10 % longer than every iteration after the slow start); NULL without one"""
in_window = """true if metrics include the iteration: it is whole, and in the steady state or
    there is no steady state"""
measured_over = """iterations of the process that metrics include: steady state, or all iterations
    if more than half show signs of warm-up"""
dropped = """reason for leaving it out: GPU work not fully recorded, next start not recorded (the
    last iteration), pause (over 10 s and over 100 times as long as usual), or its sign of warm-up;
    NULL otherwise"""
[advice]
missing = """
needs iterations: no range or mark of the program matches iteration_pattern and the kernels show no
period; {steps}, or use --set iteration_pattern=REGEX"""
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
        -- The iteration that follows may not be fully recorded; its start ends the last period.
        coalesce(lead(b.start_ns) OVER in_process,
            CASE WHEN b.next_gpu_ns IS NOT NULL THEN b.end_ns END) AS next_start_ns,
        coalesce(lead(w.gpu_start_ns) OVER in_process, b.next_gpu_ns) AS next_gpu_start_ns,
        greatest(b.end_ns, w.gpu_end_ns) AS last_end_ns,
        CASE WHEN o.trace_id IS NOT NULL THEN coalesce(w.kernels, 0) END AS kernels,
        CASE WHEN o.trace_id IS NOT NULL THEN coalesce(w.kernel_ns, 0) END AS kernel_ns
    FROM _iteration_boundary b
    LEFT JOIN work w
        ON  w.trace_id = b.trace_id AND w.process_id IS NOT DISTINCT FROM b.process_id
        AND w.iteration = b.iteration
    LEFT JOIN (SELECT DISTINCT trace_id FROM op_scope) o ON o.trace_id = b.trace_id
    WINDOW in_process AS (PARTITION BY b.trace_id, b.process_id ORDER BY b.iteration)
),
-- GPU work that no iteration launched, by the iteration that began before it.
outside AS (
    SELECT o.trace_id, o.process_id, t.iteration, o.start_ns, o.end_ns,
        o.start_ns >= t.last_end_ns AS is_after
    FROM op_scope o
    ASOF LEFT JOIN timed t
        ON  t.trace_id = o.trace_id AND t.process_id IS NOT DISTINCT FROM o.process_id
        AND o.start_ns >= t.start_ns
    WHERE o.iteration IS NULL
),
between_work AS (
    SELECT trace_id, process_id, iteration, sum(end_ns - start_ns) AS ns
    FROM outside WHERE is_after GROUP BY ALL
),
-- Kernels launched before the first iteration that run after its start.
left_over AS (
    SELECT t.trace_id, t.process_id, max(o.end_ns) AS end_ns
    FROM outside o
    JOIN timed t ON t.trace_id = o.trace_id AND t.process_id IS NOT DISTINCT FROM o.process_id
    WHERE t.iteration = 0 AND o.start_ns < t.gpu_start_ns
    GROUP BY ALL
),
-- The profiler may record the GPU for only a part of the run: iterations before the first and after
-- the last with GPU work are not whole, nor are those at the edges with less than half of the usual
-- number of kernels.
usual AS (
    SELECT *, next_start_ns - end_ns AS gap_ns,
        median(next_start_ns - start_ns) OVER whole AS usual_ns,
        median(next_start_ns - end_ns) OVER whole AS usual_gap_ns,
        median(kernels) FILTER (gpu_ns IS NOT NULL) OVER whole AS usual_kernels,
        count(*) OVER whole AS iterations
    FROM timed
    WINDOW whole AS (PARTITION BY trace_id, process_id)
),
recorded AS (
    SELECT *,
        coalesce(min(iteration) FILTER (is_full) OVER whole, min(iteration) OVER whole)
            AS first_work,
        coalesce(max(iteration) FILTER (gpu_ns IS NOT NULL) OVER whole, max(iteration) OVER whole)
            AS last_work,
        coalesce(max(iteration) FILTER (is_full) OVER whole, max(iteration) OVER whole)
            AS last_full
    FROM (
        SELECT *,
            gpu_ns IS NOT NULL AND (iterations < 4 OR 2 * kernels >= usual_kernels) AS is_full
        FROM usual
    )
    WINDOW whole AS (PARTITION BY trace_id, process_id)
),
-- The period of the last iteration ends with its range, if ranges follow each other closely. With
-- more than 5 % of the time between ranges, a part of its period is missing. Ranges that overlap
-- end after their periods.
ended AS (
    SELECT *,
        next_start_ns IS NULL AND contains(method, 'range') AND end_ns IS NOT NULL
            AND (iterations = 1 OR abs(usual_gap_ns) <= 0.05 * usual_ns) AS is_closed,
        is_closed AND iteration = last_work
            AND coalesce(kernels >= 0.9 * min(kernels) FILTER (
                iteration >= first_work AND iteration < last_work) OVER whole, true)
            AS ends_itself
    FROM recorded
    WINDOW whole AS (PARTITION BY trace_id, process_id)
),
whole AS (
    SELECT *,
        iteration BETWEEN first_work AND least(last_full, greatest(first_work, last_work - 1))
            OR (ends_itself OR next_gpu_ns IS NOT NULL) AND iteration = last_full AS is_recorded,
        is_recorded AND next_start_ns IS NOT NULL AS is_compared
    FROM ended
),
clocked AS (
    SELECT *,
        -- GPU periods need a known, non-negative period of each whole iteration.
        CASE WHEN coalesce(
                bool_and(next_gpu_start_ns >= gpu_start_ns) FILTER (is_compared) OVER process
                AND count(next_gpu_start_ns - gpu_start_ns) FILTER (is_compared) OVER process
                    = count(*) FILTER (is_compared) OVER process
                AND (method = 'anchor kernel'
                     OR sum(next_gpu_start_ns - gpu_start_ns) FILTER (is_compared) OVER process
                        > 1.05 * sum(next_start_ns - start_ns) FILTER (is_compared) OVER process
                     OR median(gpu_start_ns - end_ns) FILTER (is_compared) OVER process > 0),
                false)
             THEN 'gpu' ELSE 'host' END AS clock
    FROM whole
    WINDOW process AS (PARTITION BY trace_id, process_id)
),
-- Pauses between iterations, with GPU work of no iteration (evaluation) or far longer than an
-- iteration (suspension), are no part of a period if they are rare.
paused AS (
    SELECT c.*,
        coalesce(c.gap_ns > greatest(100 * c.usual_ns, 10_000_000_000), false) AS is_long,
        coalesce(is_long OR 2 * c.gap_ns > c.usual_ns AND 10 * b.ns > c.gap_ns, false)
            AND contains(c.method, 'range') AS is_break
    FROM clocked c
    LEFT JOIN between_work b
        ON  b.trace_id = c.trace_id AND b.process_id IS NOT DISTINCT FROM c.process_id
        AND b.iteration = c.iteration
),
bounded AS (
    SELECT p.*,
        is_break AND 10 * count(*) FILTER (is_break) OVER whole <= greatest(p.iterations, 10)
            AS pauses,
        CASE WHEN p.clock = 'gpu' THEN p.gpu_start_ns
             WHEN p.iteration = 0 AND l.end_ns > p.start_ns
             THEN least(p.gpu_start_ns, l.end_ns, p.end_ns)
             ELSE p.start_ns END AS period_start_ns,
        CASE WHEN pauses OR p.ends_itself THEN p.last_end_ns
             WHEN p.clock = 'gpu' THEN p.next_gpu_start_ns
             ELSE p.next_start_ns END AS period_end_ns
    FROM paused p
    LEFT JOIN left_over l
        ON l.trace_id = p.trace_id AND l.process_id IS NOT DISTINCT FROM p.process_id
    WINDOW whole AS (PARTITION BY p.trace_id, p.process_id)
),
paced AS (
    SELECT *, period_end_ns - period_start_ns AS period_ns,
        coalesce(period_ns > greatest(100 * usual_ns, 10_000_000_000), false)
            AND iteration > first_work AS is_pause,
        is_recorded AND NOT is_pause AS is_whole
    FROM bounded
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
-- At most half of the iterations can be warm-up. Iterations with a sign that are no slower than the
-- others stay: each capture begins with the first recorded use of each kernel.
settled AS (
    SELECT *,
        CASE WHEN 2 * prefix <= number THEN if(is_slower, prefix, 0) END AS warm_ups
    FROM (
        SELECT *,
            coalesce(avg(period_ns) FILTER (is_whole AND place < prefix) OVER whole
                > 1.1 * avg(period_ns) FILTER (is_whole AND place >= prefix) OVER whole, true)
            AS is_slower
        FROM led WINDOW whole AS (PARTITION BY trace_id, process_id, by_name)
    )
    QUALIFY by_name = coalesce(
        min(by_name) FILTER (warm_ups IS NOT NULL) OVER (PARTITION BY trace_id, process_id), false)
)
SELECT trace_id, process_id, iteration, label, start_ns, end_ns, host_ns, gpu_start_ns, gpu_end_ns,
    gpu_ns, period_start_ns, period_end_ns, period_ns, clock, kernels, kernel_ns, thread_id,
    method, confidence, is_whole,
    sign AS warm_up,
    is_whole AND place >= coalesce(warm_ups, 0) AS in_window,
    CASE WHEN warm_ups IS NULL THEN 'all iterations' ELSE 'steady state' END AS measured_over,
    CASE
        WHEN in_window THEN NULL
        WHEN iteration < first_work OR iteration > last_work
            OR iteration >= least(last_work, last_full + 1) AND next_start_ns IS NOT NULL
            THEN 'GPU work not fully recorded'
        WHEN is_pause THEN 'pause'
        WHEN NOT is_whole
            THEN if(is_closed, 'GPU work not fully recorded', 'next start not recorded')
        ELSE sign
    END AS dropped
FROM settled
