/*
title    = "Memory over time"
question = "How do the live bytes of each class change over the recording?"
source   = """the recording is divided into `points` stretches of equally many events; each shows
    the instant of its highest total, so that no peak is lost"""
grain    = "instant and class, per memory space"
needs    = ["allocation", "memory_running"]
reduce   = "concat"
returns = [
    "trace_id", "process_id", "device_id", "allocator", "memory_kind", "sequence", "timestamp_ns",
    "part", "requested_bytes", "total_bytes", "reserved_bytes",
]
[columns]
memory_kind = "kind of memory, as recorded by a profiler of CUDA; NULL otherwise"
sequence = "event after which the bytes are live"
timestamp_ns = "time of the event; NULL if the file has no times"
part = "class, layer or phase, by parameter `by`"
requested_bytes = "live bytes of the part"
total_bytes = "live bytes of all parts"
reserved_bytes = "bytes that the allocator holds; NULL when unknown"
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
panels = ["trace_id", "process_id", "device_id", "allocator", "memory_kind"]
*/
WITH
bound AS (
    SELECT space, min(sequence) AS first_sequence,
        max(sequence) - min(sequence) + 1 AS sequences
    FROM memory_running GROUP BY space
),
running AS (
    SELECT r.*,
        (r.sequence - b.first_sequence) * getvariable('points') // b.sequences
            AS stretch
    FROM memory_running AS r
    JOIN bound AS b USING (space)
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
    SELECT a.trace_id, a.space, a.process_id, a.device_id, a.allocator, a.memory_kind,
        a.born_sequence, a.died_sequence, a.requested_bytes, b.first_sequence, b.sequences,
        coalesce(CASE getvariable('by')
            WHEN 'layer' THEN a.layer
            WHEN 'phase' THEN a.phase
            ELSE a.class
        END, 'unknown') AS part
    FROM allocation AS a
    JOIN bound AS b USING (space)
),
change AS (
    SELECT space, part, coalesce(born_sequence, first_sequence) AS sequence,
        born_sequence IS NULL AS is_older, requested_bytes AS bytes, first_sequence, sequences
    FROM parted
    UNION ALL
    SELECT space, part, died_sequence, false, -requested_bytes, first_sequence, sequences
    FROM parted WHERE died_sequence IS NOT NULL
),
-- A change counts from the instant of its stretch on, or from the next if it comes later.
followed AS (
    SELECT *, lead(stretch) OVER (PARTITION BY space ORDER BY stretch) AS next_stretch
    FROM instant
),
summed AS (
    SELECT c.space, c.part,
        if(c.is_older OR c.sequence <= i.sequence, i.stretch, i.next_stretch) AS stretch,
        sum(c.bytes) AS bytes
    FROM change AS c
    JOIN followed AS i
        ON i.space = c.space
        AND i.stretch
        = (c.sequence - c.first_sequence) * getvariable('points') // c.sequences
    GROUP BY ALL
),
named AS (
    SELECT DISTINCT trace_id, space, process_id, device_id, allocator, memory_kind, part
    FROM parted
),
wanted AS (
    SELECT n.*, i.sequence, i.timestamp_ns, i.total_bytes, i.reserved_bytes,
        sum(coalesce(s.bytes, 0)) OVER (
            PARTITION BY n.space, n.part ORDER BY i.stretch ROWS UNBOUNDED PRECEDING
        )::BIGINT AS requested_bytes
    FROM named AS n
    JOIN instant AS i USING (space)
    LEFT JOIN summed AS s
        ON s.space = n.space AND s.part = n.part AND s.stretch = i.stretch
)
SELECT w.trace_id, w.process_id, w.device_id, w.allocator, w.memory_kind, w.sequence,
    w.timestamp_ns, w.part, w.requested_bytes, w.total_bytes, w.reserved_bytes
FROM wanted AS w
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
