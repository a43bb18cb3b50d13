/*
title    = "Counters of a timeline"
question = "What were the values of each periodic GPU metric, and the live bytes, over time?"
source   = """samples of GPU metrics; live bytes of each class after every event that changes them,
    and bytes that the allocator holds"""
grain    = "sample of a metric of a GPU; instant at which a counter of a memory space changes"
needs    = ["trace"]
optional = ["gpu_sample", "allocation", "memory_running", "memory_space"]
[columns]
counter_kind = "gpu (metric of a GPU) or memory"
process_id = "key of the process; NULL when unknown, and for metrics of GPUs"
device_id = "physical GPU, or device of the process; NULL when unknown, or for host memory"
allocator = "as memory_event.allocator; NULL for metrics of GPUs"
memory_kind = "as memory_event.memory_kind; NULL for metrics of GPUs"
metric = "name of the metric; class of the bytes, or reserved"
unit = "unit of the metric; NULL when unknown"
timestamp_ns = "time of the sample"
value = "value in this unit"
*/
WITH
first_time AS (
    SELECT space, min(timestamp_ns) AS timestamp_ns
    FROM memory_running WHERE timestamp_ns IS NOT NULL GROUP BY space
),
change AS (
    SELECT space, class, coalesce(born_sequence, -1) AS sequence, requested_bytes AS bytes
    FROM allocation
    UNION ALL
    SELECT space, class, died_sequence, -requested_bytes
    FROM allocation WHERE died_sequence IS NOT NULL
    UNION ALL
    -- Each counter begins with the recording.
    SELECT DISTINCT space, class, -1, 0 FROM allocation
),
summed AS (
    SELECT space, class, sequence, sum(bytes) AS bytes FROM change GROUP BY ALL
),
level AS (
    SELECT space, class AS metric, sequence,
        sum(bytes) OVER (
            PARTITION BY space, class ORDER BY sequence ROWS UNBOUNDED PRECEDING
        ) AS bytes
    FROM summed
),
timed AS (
    SELECT l.space, l.metric, l.sequence, coalesce(r.timestamp_ns, f.timestamp_ns) AS timestamp_ns,
        l.bytes
    FROM level AS l
    LEFT JOIN memory_running AS r USING (space, sequence)
    LEFT JOIN first_time AS f ON f.space = l.space AND l.sequence = -1
    UNION ALL
    SELECT space, 'reserved', sequence, timestamp_ns, reserved_bytes
    FROM memory_running
    WHERE reserved_bytes IS NOT NULL
    QUALIFY reserved_bytes IS DISTINCT FROM
        lag(reserved_bytes) OVER (PARTITION BY space ORDER BY sequence)
),
-- The last of several events at one instant counts.
latest AS (
    SELECT space, metric, timestamp_ns, arg_max(bytes, sequence)::DOUBLE AS value
    FROM timed WHERE timestamp_ns IS NOT NULL
    GROUP BY space, metric, timestamp_ns
)
SELECT 'gpu' AS counter_kind, NULL::BIGINT AS process_id, gpu_id AS device_id,
    NULL::VARCHAR AS allocator, NULL::VARCHAR AS memory_kind, metric, unit, timestamp_ns, value
FROM gpu_sample
WHERE value IS NOT NULL
UNION ALL
SELECT 'memory', s.process_id, s.device_id, s.allocator, s.memory_kind, h.metric, 'byte',
    h.timestamp_ns, h.value
FROM latest AS h
JOIN memory_space AS s USING (space)
ORDER BY counter_kind, process_id, device_id, allocator, memory_kind, metric, unit, timestamp_ns,
    value
