/*
title    = "Waits for input"
question = "Before which calls did the launching thread wait for the next batch?"
source   = """pauses of the host in a range of the phase data or of a loader; in processes without
    ranges of a loader, pauses of more than 1 ms within 12 calls before the first large copy of a
    batch; copies of programs without steps are no batches"""
grain    = "CUDA call after a wait"
needs    = ["host_chain", "gpu_chain"]
optional = ["annotation_semantics", "annotation_range", "memcpy", "step_window"]
returns = [
    "trace_id", "process_id", "position", "evidence", "start_ns", "end_ns", "wait_ns",
    "is_loaded_here",
]
[columns]
position = "host_chain.position of the call"
evidence = "data range, DataLoader range or copy of the batch"
start_ns = "start of the wait: of the pause before the call, or of the range inside it"
end_ns = "end of the wait"
wait_ns = """time of the pause inside the range; without a range, the whole pause
    (host_chain.think_ns)"""
is_loaded_here = """true if the launching thread loads the batch itself, by the name of the range: a
    DataLoader without workers; NULL when unknown"""
*/
WITH
copy AS MATERIALIZED (
    SELECT h.trace_id, h.process_id, h.thread_id, h.start_ns, h.position
    FROM gpu_chain g
    JOIN memcpy m ON m.trace_id = g.trace_id AND m.memcpy_id = g.op_id
    JOIN host_chain h
        ON h.trace_id = g.trace_id AND h.api_call_id = g.api_call_id
    WHERE g.op_kind = 'memcpy' AND m.direction = 'HtoD' AND g.bytes >= 100000
),
numbered AS MATERIALIZED (
    SELECT trace_id, process_id, thread_id, position, start_ns, think_ns,
        row_number() OVER (PARTITION BY trace_id, process_id, thread_id ORDER BY position) AS rank
    FROM host_chain
),
kernel_launch AS MATERIALIZED (
    SELECT h.trace_id, h.process_id, h.position
    FROM gpu_chain g
    JOIN host_chain h ON h.trace_id = g.trace_id AND h.api_call_id = g.api_call_id
    WHERE g.op_kind IN ('kernel', 'graph')
),
-- Copies without a kernel or 12 calls between them belong to one batch.
burst AS (
    SELECT trace_id, process_id, thread_id, rank,
        rank - lag(rank, 1, rank - 24) OVER (
            PARTITION BY trace_id, process_id, thread_id ORDER BY rank) AS calls
    FROM (
        SELECT n.*, lag(n.position) OVER (
            PARTITION BY n.trace_id, n.process_id, n.thread_id ORDER BY n.position) AS earlier,
            k.position AS kernel_position
        FROM numbered n
        SEMI JOIN copy c USING (trace_id, process_id, position)
        ASOF LEFT JOIN kernel_launch k
            ON  k.trace_id = n.trace_id AND k.process_id = n.process_id
            AND n.position >= k.position
    )
    WHERE earlier IS NULL OR position - earlier > 12 OR kernel_position > earlier
    -- Batches repeat; a single burst loads the data of a program.
    QUALIFY count(*) OVER (PARTITION BY trace_id, process_id) > 1
),
-- Of steps with few calls, the second half.
before_copy AS (
    SELECT n.trace_id, n.process_id, n.position
    FROM burst b
    JOIN numbered n
        ON  n.trace_id = b.trace_id AND n.process_id = b.process_id
        AND n.thread_id IS NOT DISTINCT FROM b.thread_id
        AND n.rank BETWEEN b.rank - least(11, b.calls // 2) AND b.rank
    SEMI JOIN step_window w ON w.trace_id = n.trace_id AND w.process_id = n.process_id
    WHERE n.think_ns > 1000000
),
-- Lightning and TensorFlow name their loaders, too.
data_range AS MATERIALIZED (
    SELECT trace_id, coalesce(process_id, -1) AS process_id, thread_id, start_ns, end_ns,
        'data range' AS evidence, NULL::BOOLEAN AS is_loaded_here
    FROM annotation_semantics WHERE phase = 'data'
    UNION ALL
    SELECT trace_id, coalesce(process_id, -1), thread_id, start_ns, end_ns, 'DataLoader range',
        CASE WHEN contains(text, 'DataLoaderIter') THEN contains(text, 'SingleProcess') END
    FROM annotation_range
    WHERE regexp_matches(
        text, '^enumerate\(DataLoader\)|DataLoader.*__next__|dataloader_next|IteratorGetNext')
),
in_range AS (
    SELECT n.trace_id, n.process_id, n.position, d.evidence, d.is_loaded_here,
        greatest(n.start_ns - n.think_ns, d.start_ns) AS start_ns,
        least(n.start_ns, d.end_ns) AS end_ns
    FROM data_range d
    JOIN numbered n
        ON  n.trace_id = d.trace_id AND n.process_id = d.process_id AND n.thread_id = d.thread_id
        AND n.start_ns > d.start_ns AND n.start_ns - n.think_ns < d.end_ns
),
wait AS (
    SELECT * FROM in_range
    UNION ALL
    SELECT trace_id, process_id, position, 'copy of the batch', NULL, n.start_ns - n.think_ns,
        n.start_ns
    FROM before_copy
    JOIN numbered n USING (trace_id, process_id, position)
    -- A framework marks all of its loading. Ranges of users may hold the copy alone.
    ANTI JOIN (FROM data_range WHERE evidence = 'DataLoader range')
        USING (trace_id, process_id)
),
-- Ranges may contain each other.
apart AS (
    SELECT *, greatest(start_ns, max(end_ns) OVER (
        PARTITION BY trace_id, process_id, position ORDER BY start_ns, end_ns
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)) AS from_ns
    FROM wait
)
SELECT trace_id, process_id, position,
    coalesce(min(evidence) FILTER (evidence <> 'copy of the batch'), 'copy of the batch')
        AS evidence,
    min(start_ns) AS start_ns, max(end_ns) AS end_ns,
    sum(greatest(end_ns - from_ns, 0))::BIGINT AS wait_ns,
    bool_or(is_loaded_here) AS is_loaded_here
FROM apart
GROUP BY ALL
-- Shorter pauses are the usual ones between calls.
HAVING sum(greatest(end_ns - from_ns, 0)) > 20000
