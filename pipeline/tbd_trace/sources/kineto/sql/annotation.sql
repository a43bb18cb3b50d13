-- Operators with the texts that torch.autograd.profiler.emit_nvtx writes, ranges of
-- record_function as the ranges of the program, calls of modules, the profiler's own work, and on
-- request frames of Python.
SELECT
    e.event_id AS annotation_id,
    CASE e.kind
        WHEN 'overhead' THEN 'profiler' WHEN 'user' THEN 'python' ELSE e.kind
    END AS source,
    -- The all-reduce of a bucket ends on another thread than it begins on, among other ranges.
    if(e.kind = 'user' AND regexp_matches(e.name, ', bytes = \d+, bucket = \d+$'),
        'start_end', 'push_pop') AS kind,
    e.start_ns,
    e.start_ns + e.duration_ns AS end_ns,
    coalesce(NOT e.a.finished, false) AS is_open,
    host_process(e.pid) AS process_id,
    TRY_CAST(e.tid AS BIGINT) AS thread_id,
    CASE WHEN e.a.finished IS NOT FALSE THEN TRY_CAST(e.tid AS BIGINT) END AS end_thread_id,
    CASE e.kind WHEN 'operator' THEN -1 WHEN 'module' THEN -1 WHEN 'overhead' THEN -2
        WHEN 'frame' THEN -3 ELSE 0 END
        AS domain_id,
    CASE e.kind
        -- torch 1.8 records steps as operators.
        WHEN 'operator' THEN if(starts_with(e.name, 'ProfilerStep#'), e.name, concat(
            e.name,
            ', seq = ' || e.a."Sequence number"::VARCHAR,
            ', op_id = ' || e.a."External id"::VARCHAR,
            ', sizes = ' || replace(nullif(coalesce(
                e.a."Input Dims", json_extract(e.args, '$."Input dims"'))::VARCHAR, '[]'),
                ',', ', ')))
        WHEN 'module' THEN coalesce(m.path, e.name)
        ELSE e.name
    END AS text
FROM (
    SELECT *, json_transform(args, '{
        "External id": "BIGINT", "Sequence number": "BIGINT", "Input Dims": "JSON",
        "finished": "BOOLEAN"}') AS a
    FROM event WHERE kind IN ('operator', 'user', 'module', 'overhead', 'frame')
) AS e
LEFT JOIN module_path AS m ON m.event_id = e.event_id AND e.kind = 'module'
