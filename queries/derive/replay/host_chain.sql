/*
title    = "Host calls in order of dependence"
question = "What did each CUDA call wait for, and how long did the host work before it?"
source   = """a call follows the previous call of its thread; after a gap above 20 µs, the last call
    of any launching thread that ended in the gap, because threads hand work to each other"""
grain    = "CUDA call of a launching thread, without calls inside other calls"
needs    = ["gpu_op", "launch"]
optional = ["api_call", "synchronization", "gpu_chain"]
[columns.trace_id]
doc = "the trace"
[columns.process_id]
doc = "key of the process; -1 when unknown"
[columns.thread_id]
doc = "key of the thread"
[columns.position]
doc = "order of the call in its process, by start, from 1"
[columns.api_call_id]
doc = "the call"
[columns.name]
doc = "function name"
[columns.kind]
doc = "launch, copy, sync, alloc or other"
[columns.start_ns]
unit = "ns"
doc = "start"
[columns.end_ns]
unit = "ns"
doc = "end"
[columns.waited_position]
doc = "position of the call that it follows; NULL for the first call"
[columns.think_ns]
unit = "ns"
doc = "time between the end of that call and the start of this one; NULL for the first call"
[columns.awaited_op]
doc = """gpu_chain.position of the operation that the call waits for: of a synchronization, the last
    one that ended before the call returned; of a blocking copy, a launch into a full queue or a
    release of device memory, one that ended during the call. NULL otherwise"""
[columns.tail_ns]
unit = "ns"
doc = "end of the call - end of the awaited operation"
*/
WITH
thread_number AS (
    SELECT trace_id, coalesce(process_id, -1) AS process_id, thread_id,
        row_number() OVER (ORDER BY trace_id, process_id, thread_id) AS thread
    FROM (SELECT DISTINCT trace_id, process_id, thread_id FROM launch)
),
call AS MATERIALIZED (
    SELECT *, row_number() OVER (
        PARTITION BY trace_id, process_id ORDER BY start_ns, end_ns, api_call_id) AS position
    FROM (
        SELECT t.trace_id, t.process_id, t.thread_id, t.thread, a.api_call_id, a.name,
            a.correlation_id, a.start_ns, a.end_ns,
            max(a.end_ns) OVER (
                PARTITION BY t.thread ORDER BY a.start_ns, a.end_ns DESC, a.api_call_id
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS earlier_end_ns
        FROM api_call a
        JOIN thread_number t
            ON  t.trace_id = a.trace_id AND t.process_id = coalesce(a.process_id, -1)
            AND t.thread_id IS NOT DISTINCT FROM a.thread_id
        WHERE a.api = 'cuda' AND a.end_ns >= a.start_ns
    )
    -- Driver calls inside runtime calls are part of them.
    WHERE earlier_end_ns IS NULL OR end_ns > earlier_end_ns
),
kind AS MATERIALIZED (
    SELECT name,
        CASE
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
    FROM (SELECT DISTINCT name FROM call)
),
sequence AS MATERIALIZED (
    SELECT c.*, k.kind, k.is_blocking, k.frees,
        lag(c.position) OVER thread AS previous,
        lag(c.end_ns) OVER thread AS previous_end_ns,
        s.stream_id
    FROM call c
    JOIN kind k USING (name)
    LEFT JOIN (
        SELECT trace_id, coalesce(process_id, -1) AS process_id, correlation_id,
            any_value(stream_id) AS stream_id
        FROM synchronization WHERE sync_type = 'stream synchronize'
        GROUP BY ALL
    ) s ON  s.trace_id = c.trace_id AND s.process_id = c.process_id
        AND s.correlation_id = c.correlation_id AND k.kind = 'sync'
    WINDOW thread AS (PARTITION BY c.thread ORDER BY c.start_ns, c.position)
),
ended AS MATERIALIZED (
    SELECT trace_id, process_id, end_ns, max(position) AS position FROM call GROUP BY ALL
),
followed AS (
    SELECT s.*, e.position AS last_ended, e.end_ns AS last_ended_ns
    FROM sequence s
    ASOF LEFT JOIN ended e
        ON e.trace_id = s.trace_id AND e.process_id = s.process_id AND s.start_ns >= e.end_ns
),
usual AS (
    SELECT trace_id, process_id, median(end_ns - start_ns) AS launch_ns
    FROM sequence WHERE kind = 'launch' GROUP BY ALL
),
-- Operations in order of their ends, over all streams (stream_id NULL) and for each stream.
op_end AS MATERIALIZED (
    SELECT trace_id, process_id, stream, end_ns, max(position) AS position
    FROM (
        SELECT trace_id, process_id, unnest([-1, coalesce(stream_id, -1)]) AS stream, end_ns,
            position
        FROM gpu_chain
    )
    GROUP BY ALL
),
awaiting AS (
    SELECT f.*, o.position AS op, o.end_ns AS op_end_ns,
        u.launch_ns
    FROM followed f
    LEFT JOIN usual u USING (trace_id, process_id)
    ASOF LEFT JOIN op_end o
        ON  o.trace_id = f.trace_id AND o.process_id = f.process_id
        AND o.stream = coalesce(f.stream_id, -1) AND f.end_ns >= o.end_ns
)
SELECT trace_id, process_id, thread_id, position, api_call_id, name, kind, start_ns, end_ns,
    CASE WHEN is_handed THEN last_ended ELSE previous END AS waited_position,
    start_ns - CASE WHEN is_handed THEN last_ended_ns ELSE previous_end_ns END AS think_ns,
    CASE WHEN waits THEN op END AS awaited_op,
    CASE WHEN waits THEN end_ns - op_end_ns END AS tail_ns
FROM (
    SELECT *,
        -- Calls without a duration may end at the start of one that comes before them.
        coalesce(last_ended < position, false)
            AND (previous IS NULL
                 OR start_ns - previous_end_ns > 20000 AND last_ended_ns > previous_end_ns)
            AS is_handed,
        coalesce(
            kind = 'sync'
            OR op_end_ns > start_ns AND (
                is_blocking
                OR frees
                -- A launch into a full queue returns when an operation ends.
                OR kind IN ('launch', 'copy') AND end_ns - start_ns > 8 * launch_ns
                   AND end_ns - op_end_ns <= 30000),
            false) AS waits
    FROM awaiting
)
