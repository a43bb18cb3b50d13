/*
title    = "Memory over time"
question = "How do the live bytes of each class change over the recording?"
source   = """the recording is divided into `points` stretches of equally many events; each shows
    the instant of its highest total, so that no peak is lost"""
grain    = "instant and class, per memory space"
needs    = ["allocation", "memory_running"]
[columns.trace_id]
doc = "the trace"
[columns.process_id]
doc = "key of the process; NULL when unknown"
[columns.device_id]
doc = "device; NULL for host memory"
[columns.allocator]
doc = "as allocation.allocator"
[columns.memory_kind]
doc = "kind of memory, as recorded by a profiler of CUDA; NULL otherwise"
[columns.sequence]
doc = "event after which the bytes are live; -1 is before the first event"
[columns.timestamp_ns]
unit = "ns"
doc = "time of the event; NULL if the file has no times"
[columns.part]
doc = "class, layer or phase, by parameter `by`"
[columns.requested_bytes]
unit = "byte"
doc = "live bytes of the part"
[columns.total_bytes]
unit = "byte"
doc = "live bytes of all parts"
[columns.reserved_bytes]
unit = "byte"
doc = "bytes that the allocator holds; NULL when unknown"
[params.points]
doc     = "instants per memory space, at most"
default = 500
[params.by]
doc     = "what the bytes are divided by"
choices = ["class", "layer", "phase"]
default = "class"
[plot]
kind   = "stacked_area"
x      = "sequence"
y      = ["requested_bytes"]
series = "part"
*/
WITH
running AS (
    SELECT *,
        (row_number() OVER in_order - 1) * coalesce(getvariable('points'), 500)
        // count(*) OVER (PARTITION BY space) AS stretch
    FROM memory_running
    WINDOW in_order AS (PARTITION BY space ORDER BY sequence)
),
highest AS (
    SELECT trace_id, space, stretch, max(requested_bytes) AS total_bytes
    FROM running GROUP BY trace_id, space, stretch
),
instant AS (
    SELECT r.trace_id, r.space, r.stretch, any_value(h.total_bytes) AS total_bytes,
        min(r.sequence) AS sequence,
        arg_min(r.timestamp_ns, r.sequence) AS timestamp_ns,
        arg_min(r.reserved_bytes, r.sequence) AS reserved_bytes
    FROM running AS r
    JOIN highest AS h USING (space, stretch)
    WHERE r.requested_bytes = h.total_bytes
    GROUP BY r.trace_id, r.space, r.stretch
),
parted AS (
    SELECT trace_id, space, process_id, device_id, allocator, memory_kind, born_sequence,
        died_sequence, requested_bytes,
        coalesce(CASE coalesce(getvariable('by'), 'class')
            WHEN 'layer' THEN layer
            WHEN 'phase' THEN phase
            ELSE class
        END, 'unknown') AS part
    FROM allocation
),
change AS (
    SELECT trace_id, space, part, coalesce(born_sequence, -1) AS sequence, requested_bytes AS bytes
    FROM parted
    UNION ALL
    SELECT trace_id, space, part, died_sequence, -requested_bytes
    FROM parted WHERE died_sequence IS NOT NULL
),
summed AS (
    SELECT trace_id, space, part, sequence, sum(bytes) AS bytes
    FROM change GROUP BY trace_id, space, part, sequence
),
level AS (
    SELECT trace_id, space, part, sequence,
        sum(bytes) OVER (
            PARTITION BY space, part ORDER BY sequence ROWS UNBOUNDED PRECEDING
        )::BIGINT AS requested_bytes
    FROM summed
),
named AS (
    SELECT DISTINCT trace_id, space, process_id, device_id, allocator, memory_kind, part
    FROM parted
),
wanted AS (
    SELECT n.*, i.sequence, i.timestamp_ns, i.total_bytes, i.reserved_bytes
    FROM named AS n JOIN instant AS i USING (space)
)
SELECT w.trace_id, w.process_id, w.device_id, w.allocator, w.memory_kind, w.sequence,
    w.timestamp_ns, w.part, coalesce(l.requested_bytes, 0) AS requested_bytes, w.total_bytes,
    w.reserved_bytes
FROM wanted AS w
ASOF LEFT JOIN level AS l
    ON l.space = w.space AND l.part = w.part
    AND w.sequence >= l.sequence
ORDER BY w.trace_id, w.process_id, w.device_id, w.allocator, w.memory_kind, w.sequence,
    -- What stays is drawn below what comes and goes.
    coalesce(list_position(
        [
            'weight', 'buffer', 'optimizer_state', 'weight_gradient', 'unknown', 'input',
            'feature_map'
        ],
        w.part
    ), 8),
    w.part
