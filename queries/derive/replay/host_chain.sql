/*
title    = "Host calls in order of dependence"
question = "What did each CUDA call wait for, and how long did the host work before it?"
source   = """a call follows the previous call of its thread; after a gap above 20 µs, the last call
    of any launching thread that ended in the gap, because threads hand work to each other"""
grain    = """CUDA call of a launching thread, without calls inside other calls; beginning or end of
    successive steps in the analysis window, if the host sets it"""
needs    = ["gpu_op", "launch"]
optional = ["api_call", "synchronization", "gpu_chain", "host_window",
    "_iteration_boundary", "_event_wait_op"]
returns = [
    "trace_id", "process_id", "thread_id", "position", "api_call_id", "name", "kind", "start_ns",
    "end_ns", "waited_position", "think_ns", "awaited_op", "tail_ns",
]
[columns]
process_id = "key of the process; -1 when unknown"
position = "order of the call in its process, by start, from 1"
api_call_id = "the call; NULL for a step"
name = "function name; step begins or step ends"
kind = "launch, copy, sync, alloc, other or step"
start_ns = "start"
end_ns = "end"
waited_position = "position of the call that it follows; NULL for the first call"
think_ns = "time between the end of that call and the start of this one; NULL for the first call"
awaited_op = """gpu_chain.position of the operation that the call waits for: of a wait for an event,
    the last one launched before the event was recorded, if known; of another synchronization, the
    last one that ended before the call returned; of a blocking copy, a launch into a full queue or
    a release of device memory, one that ended during the call. NULL otherwise"""
tail_ns = "end of the call - end of the awaited operation"
*/
WITH
thread_number AS (
    SELECT trace_id, coalesce(process_id, -1) AS process_id, thread_id,
        dense_rank() OVER (ORDER BY trace_id, process_id) AS process,
        row_number() OVER (ORDER BY trace_id, process_id, thread_id) AS thread
    FROM (SELECT DISTINCT trace_id, process_id, thread_id FROM launch)
),
process_number AS (SELECT DISTINCT trace_id, process_id, process FROM thread_number),
function AS MATERIALIZED (
    SELECT name, row_number() OVER (ORDER BY name) AS function,
        CASE
            WHEN name IN ('step begins', 'step ends') THEN 'step'
            WHEN regexp_matches(name, 'Synchronize') THEN 'sync'
            WHEN regexp_matches(name, 'Malloc|Alloc|Free|HostRegister|MemPool') THEN 'alloc'
            WHEN regexp_matches(name, 'Launch') THEN 'launch'
            WHEN regexp_matches(name, 'Memcpy|Memset') THEN 'copy'
            ELSE 'other'
        END AS kind,
        regexp_matches(name, '^(cudaMemcpy|cuMemcpy)') AND NOT contains(name, 'Async')
            AS is_blocking,
        -- The driver waits for the GPU before it frees memory.
        regexp_matches(name, '^(cudaFree|cuMemFree)(_v\d+)*$') AS frees
    FROM (
        SELECT DISTINCT name FROM api_call WHERE api = 'cuda'
        UNION ALL SELECT unnest(['step begins', 'step ends'])
    )
),
-- Where the steps of the analysis window begin and end on the host: at the edges of the window and
-- around pauses. The host works before the first call of a step, and after the last one.
step_edge AS (
    SELECT trace_id, process_id, thread_id, unnest(['step begins', 'step ends']) AS name,
        unnest([
            CASE WHEN is_first AND period_start_ns = start_ns THEN start_ns END,
            CASE WHEN is_last AND period_end_ns IN (end_ns, next_start_ns) THEN period_end_ns END
        ]) AS at_ns
    FROM (
        SELECT w.*, m.start_ns AS next_start_ns,
            w.period_start_ns IS DISTINCT FROM lag(w.period_end_ns) OVER steps AS is_first,
            w.period_end_ns IS DISTINCT FROM lead(w.period_start_ns) OVER steps AS is_last
        FROM host_window w
        LEFT JOIN _iteration_boundary m
            ON  m.trace_id = w.trace_id AND m.process_id IS NOT DISTINCT FROM w.process_id
            AND m.iteration = w.iteration + 1
        WHERE w.clock = 'host'
        WINDOW steps AS (PARTITION BY w.trace_id, w.process_id ORDER BY w.iteration)
    )
),
-- Numbers stand for threads and functions, because texts would double the memory.
call AS MATERIALIZED (
    SELECT *, row_number() OVER (
        PARTITION BY process ORDER BY start_ns, end_ns, api_call_id) AS position
    FROM (
        SELECT t.process, t.thread, f.function, a.api_call_id,
            CASE WHEN f.kind = 'sync' THEN a.correlation_id END AS correlation_id, a.start_ns,
            a.end_ns,
            max(a.end_ns) OVER (
                PARTITION BY t.thread ORDER BY a.start_ns, a.end_ns DESC, a.api_call_id
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS earlier_end_ns
        FROM (
            SELECT trace_id, process_id, thread_id, name, api_call_id, correlation_id, start_ns,
                end_ns
            FROM api_call
            WHERE api = 'cuda' AND end_ns >= start_ns
            UNION ALL
            SELECT trace_id, process_id, thread_id, name, NULL, NULL, at_ns, at_ns
            FROM step_edge WHERE at_ns IS NOT NULL
        ) a
        JOIN thread_number t
            ON  t.trace_id = a.trace_id AND t.process_id = coalesce(a.process_id, -1)
            AND t.thread_id IS NOT DISTINCT FROM a.thread_id
        JOIN function f USING (name)
    )
    -- Driver calls inside runtime calls are part of them. A step may begin or end with a call.
    WHERE earlier_end_ns IS NULL OR end_ns > earlier_end_ns
       OR api_call_id IS NULL AND end_ns = earlier_end_ns
),
sequence AS MATERIALIZED (
    SELECT c.* EXCLUDE (correlation_id, earlier_end_ns),
        lag(c.position) OVER thread AS previous,
        lag(c.end_ns) OVER thread AS previous_end_ns,
        s.stream_id
    FROM call c
    LEFT JOIN (
        SELECT t.process, y.correlation_id, any_value(y.stream_id) AS stream_id
        FROM synchronization y
        JOIN process_number t
            ON t.trace_id = y.trace_id AND t.process_id = coalesce(y.process_id, -1)
        WHERE y.sync_type = 'stream synchronize'
        GROUP BY ALL
    ) s ON s.process = c.process AND s.correlation_id = c.correlation_id
    WINDOW thread AS (PARTITION BY c.thread ORDER BY c.start_ns, c.position)
),
ended AS MATERIALIZED (
    SELECT process, end_ns, max(position) AS position FROM call GROUP BY ALL
),
followed AS (
    SELECT s.*, e.position AS last_ended, e.end_ns AS last_ended_ns
    FROM sequence s
    ASOF LEFT JOIN ended e
        ON e.process = s.process AND s.start_ns >= e.end_ns
),
usual AS (
    SELECT process, median(end_ns - start_ns) AS launch_ns
    FROM sequence JOIN function USING (function) WHERE kind = 'launch' GROUP BY ALL
),
-- Operations in order of their ends, over all streams (stream_id NULL) and for each stream.
op_end AS MATERIALIZED (
    SELECT process, stream, end_ns, max(position) AS position
    FROM (
        SELECT process, unnest([-1, coalesce(stream_id, -1)]) AS stream, end_ns, position
        FROM gpu_chain
        JOIN process_number USING (trace_id, process_id)
    )
    GROUP BY ALL
),
awaiting AS (
    SELECT f.*, coalesce(v.position, o.position) AS op, coalesce(v.end_ns, o.end_ns) AS op_end_ns,
        g.position - o.position AS queued
    FROM followed f
    LEFT JOIN (
        SELECT api_call_id, min(position) AS position, process
        FROM gpu_chain
        JOIN process_number USING (trace_id, process_id)
        WHERE api_call_id IS NOT NULL
        GROUP BY ALL
    ) g ON g.process = f.process AND g.api_call_id = f.api_call_id
    LEFT JOIN (
        SELECT n.process, w.api_call_id, max(c.position) AS position, max(c.end_ns) AS end_ns
        FROM (FROM _event_wait_op WHERE stream_id IS NULL) w
        JOIN process_number n USING (trace_id, process_id)
        JOIN gpu_chain c USING (trace_id, op_kind, op_id)
        GROUP BY ALL
    ) v ON v.process = f.process AND v.api_call_id = f.api_call_id AND v.end_ns <= f.end_ns
    ASOF LEFT JOIN op_end o
        ON  o.process = f.process AND o.stream = coalesce(f.stream_id, -1)
        AND f.end_ns >= o.end_ns
)
SELECT trace_id, process_id, thread_id, position, api_call_id, name, kind, start_ns, end_ns,
    CASE WHEN is_handed THEN last_ended ELSE previous END AS waited_position,
    start_ns - CASE WHEN is_handed THEN last_ended_ns ELSE previous_end_ns END AS think_ns,
    CASE WHEN waits THEN op END AS awaited_op,
    CASE WHEN waits THEN end_ns - op_end_ns END AS tail_ns
FROM (
    SELECT *,
        -- Calls without a duration may end at the start of one that comes before them.
        last_ended < position
            AND (previous IS NULL
                 OR start_ns - previous_end_ns > 20000 AND last_ended_ns > previous_end_ns)
            AS is_handed,
        kind = 'sync'
            OR op_end_ns > start_ns AND (
                is_blocking
                OR frees
                -- A launch into a full queue returns when an operation ends. If most launches do,
                -- their number shows it: the queue holds about 1,000.
                OR kind IN ('launch', 'copy') AND (
                    end_ns - start_ns > 8 * launch_ns AND end_ns - op_end_ns <= 30000
                    OR end_ns - start_ns > 20000 AND queued >= 500))
            AS waits
    FROM awaiting
    JOIN function USING (function)
    LEFT JOIN usual USING (process)
)
JOIN thread_number USING (thread)
