/*
title    = "Causes of idle gaps"
question = "While the GPU was idle, why had the next operation not begun?"
source   = """idle time of device_timeline, divided among the causes of cause_interval; the parts of
    a gap sum to its length"""
grain    = "gap in the operations of a device, and cause"
needs    = ["gpu_op", "device_timeline", "cause_interval"]
returns = [
    "trace_id", "process_id", "device_id", "gap_id", "cause", "is_between", "duration_ns",
    "longest_ns",
]
[columns]
process_id = "key of the process; -1 when unknown"
device_id = "device; -1 when unknown"
gap_id = "number of the gap"
is_between = """true if the gap is between the last operation of an iteration and the first of the
    next"""
duration_ns = "part of the gap with this cause"
longest_ns = "longest interval of the gap without another cause"
*/
-- Devices are numbered, because sorting and joining numbers is faster than texts.
WITH
device_number AS MATERIALIZED (
    SELECT *, row_number() OVER (ORDER BY trace_id, process_id, device_id) AS device
    FROM (SELECT DISTINCT trace_id, process_id, device_id FROM device_timeline)
),
-- Idle intervals; an iteration boundary inside an interval does not split it.
gap AS MATERIALIZED (
    SELECT device, row_number() OVER (ORDER BY device, min(start_ns)) AS gap_id,
        min(start_ns) AS start_ns, max(end_ns) AS end_ns, bool_or(is_between) AS is_between
    FROM (
        SELECT *, sum(starts_gap) OVER (
            PARTITION BY device ORDER BY start_ns ROWS UNBOUNDED PRECEDING) AS gap
        FROM (
            SELECT d.device, t.start_ns, t.end_ns, t.is_between,
                (lag(t.end_ns) OVER (PARTITION BY d.device ORDER BY t.start_ns)
                    IS DISTINCT FROM t.start_ns)::INTEGER AS starts_gap
            FROM device_timeline t JOIN device_number d USING (trace_id, process_id, device_id)
            WHERE t.activity = 'idle'
        )
    )
    GROUP BY device, gap
),
-- Both relations count a device as idle at the same moments: an interval that starts in a gap ends
-- in it, and has its cause alone.
caused AS (
    SELECT g.gap_id, c.cause, c.end_ns - c.start_ns AS duration_ns
    FROM (
        SELECT d.device, i.cause, i.start_ns, i.end_ns
        FROM cause_interval i JOIN device_number d USING (trace_id, process_id, device_id)
    ) c
    ASOF JOIN gap g ON g.device = c.device AND c.start_ns >= g.start_ns
    WHERE c.start_ns < g.end_ns
)
SELECT d.trace_id, d.process_id, d.device_id, g.gap_id, c.cause, g.is_between,
    c.duration_ns, c.longest_ns
FROM (
    SELECT gap_id, cause, sum(duration_ns)::BIGINT AS duration_ns, max(duration_ns) AS longest_ns
    FROM caused GROUP BY gap_id, cause
) c
JOIN gap g USING (gap_id)
JOIN device_number d USING (device)
