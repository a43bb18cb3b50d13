/*
title    = "Busy intervals"
question = """From when to when was each GPU busy without a pause, with any operation and with
    kernels?"""
source   = """union of the operations of a process on a device; operations that touch or overlap
    form one interval"""
grain    = "interval of a device used by a process, over the whole trace including warm-up"
needs    = ["gpu_op"]
returns = ["trace_id", "process_id", "device_id", "part", "start_ns", "end_ns", "before_ns"]
[columns]
process_id = "key of the process; -1 when unknown"
device_id = "device; -1 when unknown"
part = "operations in the union: busy (all operations) or kernel (kernels and graphs)"
start_ns = "start of the first operation"
end_ns = "end of the last operation"
before_ns = "total length of the earlier intervals of this part"
*/
WITH
operation AS (
    SELECT trace_id, coalesce(process_id, -1) AS process_id, coalesce(device_id, -1) AS device_id,
        unnest(CASE WHEN op_kind IN ('kernel', 'graph') THEN ['busy', 'kernel'] ELSE ['busy'] END)
            AS part,
        start_ns, end_ns
    FROM gpu_op
),
stretch AS (
    SELECT trace_id, process_id, device_id, part, min(start_ns) AS start_ns, max(end_ns) AS end_ns
    FROM (
        -- sum() instead of count() FILTER: as a window, DuckDB computes that one quadratically.
        SELECT *, sum(begins::INTEGER) OVER (
            PARTITION BY trace_id, process_id, device_id, part ORDER BY start_ns, end_ns
            ROWS UNBOUNDED PRECEDING) AS stretch
        FROM (
            SELECT *, coalesce(start_ns > max(end_ns) OVER (
                PARTITION BY trace_id, process_id, device_id, part ORDER BY start_ns, end_ns
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), true) AS begins
            FROM operation
        )
    )
    GROUP BY trace_id, process_id, device_id, part, stretch
)
SELECT *, coalesce(sum(end_ns - start_ns) OVER (
    PARTITION BY trace_id, process_id, device_id, part ORDER BY start_ns
    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)::BIGINT AS before_ns
FROM stretch
