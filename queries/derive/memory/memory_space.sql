/*
title    = "Memory spaces"
question = "Which allocators were recorded, and how many bytes were live before their first event?"
source   = """bytes before the first event: stated by the source; else its stated end less the sum
    of all events; else the sum of all releases without an allocation"""
grain    = "process, device, allocator and kind of memory"
needs    = ["memory_event"]
optional = ["_memory_change", "_lifetime", "memory_total"]
returns = [
    "trace_id", "space", "process_id", "device_id", "allocator", "memory_kind",
    "start_requested_bytes", "start_reserved_bytes", "unexplained_bytes", "allocations",
    "unmatched_frees",
]
[columns]
start_requested_bytes = "live bytes before the first event, as requested"
start_reserved_bytes = "bytes that the allocator held before the first event; NULL when unknown"
unexplained_bytes = "live bytes before the first event of which no address is known"
allocations = "recorded allocations"
unmatched_frees = "releases of memory whose allocation was not recorded"
*/
WITH
named AS (
    SELECT trace_id, hash(trace_id, process_id, device_id, allocator, memory_kind) AS space,
        process_id, device_id, allocator, memory_kind,
        coalesce(sum(CASE
            WHEN operation IN ('segment_allocate', 'segment_map') THEN bytes
            WHEN operation IN ('segment_free', 'segment_unmap') THEN -bytes
        END), 0) AS net_reserved_bytes
    FROM memory_event
    GROUP BY trace_id, process_id, device_id, allocator, memory_kind
),
net AS (
    SELECT space, count(*) FILTER (is_allocation) AS allocations,
        count(*) FILTER (NOT is_allocation AND NOT ends_recorded) AS unmatched_frees,
        sum(if(is_allocation, bytes, 0) - coalesce(ended_bytes, 0)) AS net_bytes
    FROM _memory_change GROUP BY space
),
older AS (
    SELECT space, sum(requested_bytes) AS older_bytes
    FROM _lifetime WHERE born_sequence IS NULL GROUP BY space
),
total AS (
    SELECT hash(trace_id, process_id, device_id, allocator, memory_kind) AS space,
        any_value(requested_bytes) FILTER (sequence = -1) AS start_requested,
        any_value(reserved_bytes) FILTER (sequence = -1) AS start_reserved,
        any_value(requested_bytes) FILTER (sequence IS NULL) AS end_requested,
        any_value(reserved_bytes) FILTER (sequence IS NULL) AS end_reserved
    FROM memory_total
    GROUP BY ALL
),
started AS (
    SELECT n.*, coalesce(e.allocations, 0) AS allocations,
        coalesce(e.unmatched_frees, 0) AS unmatched_frees,
        coalesce(o.older_bytes, 0) AS older_bytes,
        CASE
            WHEN t.end_requested IS NOT NULL THEN t.end_requested - coalesce(e.net_bytes, 0)
            -- Releases prove bytes that a stated start lacks.
            ELSE greatest(t.start_requested, o.older_bytes, 0)  -- ignores NULL
        END AS start_requested_bytes,
        coalesce(t.start_reserved, t.end_reserved - n.net_reserved_bytes) AS start_reserved_bytes
    FROM named AS n
    LEFT JOIN net AS e USING (space)
    LEFT JOIN older AS o USING (space)
    LEFT JOIN total AS t USING (space)
)
SELECT trace_id, space, process_id, device_id, allocator, memory_kind,
    start_requested_bytes::BIGINT AS start_requested_bytes,
    start_reserved_bytes::BIGINT AS start_reserved_bytes,
    greatest(start_requested_bytes - older_bytes, 0)::BIGINT AS unexplained_bytes,
    allocations, unmatched_frees
FROM started
