/*
title    = "Busy stretches"
question = "From when to when was each GPU busy without a pause, with anything and with kernels?"
source   = "union of the operations of a process on a device: those that touch or overlap are one stretch"
grain    = "stretch, per device used by a process; the whole trace, warm-up included"
needs    = ["gpu_op"]
[columns.trace_id]
doc = "the trace"
[columns.process_id]
doc = "key of the process; -1 when unknown"
[columns.device_id]
doc = "device; -1 when unknown"
[columns.part]
doc = "of what it is the union: busy (all operations) or kernel (kernels and graphs)"
[columns.start_ns]
unit = "ns"
doc = "start of its first operation"
[columns.end_ns]
unit = "ns"
doc = "end of its last operation"
[columns.before_ns]
unit = "ns"
doc = "length of the earlier stretches of this part together"
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
        -- a sum, for DuckDB counts filtered rows again for each row
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
