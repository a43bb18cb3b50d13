/*
title    = "Memory of a device at the peak, at a failure and at the end"
question = "How many bytes were live, held and free at the moments that matter?"
source   = """running sums of the events; segments and blocks of the final snapshot at the end;
    the allocations of a compiler's plan"""
grain    = "moment of a memory space"
needs    = [["memory_event", "memory_segment", "memory_plan"]]
optional = [
    "_memory_moment", "_held_range", "memory_running", "memory_space", "memory_block", "allocation",
]
returns = [
    "trace_id", "space", "process_id", "device_id", "allocator", "memory_kind", "moment",
    "sequence", "timestamp_ns", "requested_bytes", "allocated_bytes", "reserved_bytes",
    "unused_bytes", "free_inside_bytes", "free_segment_bytes", "largest_free_bytes",
    "whole_page_bytes", "is_expandable",
]
[columns]
memory_kind = """kind of memory, as recorded by a profiler of CUDA; computation of a plan; NULL
    otherwise"""
moment = "peak, failure (the last allocation that failed), end, or plan of a compiler"
sequence = "event after which the state counts; -1 is before the first event; NULL at the end"
timestamp_ns = "time of that event; NULL when unknown"
requested_bytes = "live bytes as requested; NULL when unknown"
allocated_bytes = "live bytes with rounding; NULL when unknown"
reserved_bytes = """bytes that the allocator held; NULL when unknown, or below the live bytes,
    because events of segments are missing"""
unused_bytes = "held bytes less live ones; NULL when unknown"
free_inside_bytes = "free bytes in segments with live blocks; NULL when unknown"
free_segment_bytes = "segments without live blocks; NULL when unknown"
largest_free_bytes = "largest free block; NULL when unknown"
whole_page_bytes = """free bytes in segments with live blocks, in whole pages of 20 MiB; NULL when
    unknown"""
is_expandable = "true if the allocator used expandable segments; NULL when unknown"
[advice]
missing = "needs memory events or segments; {memory}"
*/
WITH
ranges AS (
    SELECT space, moment, sum(bytes) AS reserved_bytes, sum(live_bytes) AS live_bytes,
        coalesce(sum(bytes - live_bytes) FILTER (live_bytes > 0), 0) AS free_inside_bytes,
        coalesce(sum(bytes) FILTER (live_bytes = 0), 0) AS free_segment_bytes,
        max(largest_free_bytes) AS largest_free_bytes, sum(whole_page_bytes) AS whole_page_bytes
    FROM _held_range GROUP BY space, moment
),
-- The state after the last change up to the moment: a failure itself changes nothing.
running AS (
    SELECT m.space, m.moment, arg_max(r.requested_bytes, r.sequence) AS requested_bytes,
        arg_max(r.reserved_bytes, r.sequence) AS reserved_bytes
    FROM _memory_moment AS m
    JOIN memory_running AS r ON r.space = m.space AND r.sequence <= m.sequence
    GROUP BY m.space, m.moment
),
rounded AS (
    SELECT m.space, m.moment, coalesce(sum(a.allocated_bytes), 0) AS allocated_bytes
    FROM _memory_moment AS m
    LEFT JOIN allocation AS a
        ON a.space = m.space AND coalesce(a.born_sequence, -1) <= m.sequence
        AND coalesce(a.died_sequence > m.sequence, true)
    GROUP BY m.space, m.moment
    HAVING count(a.space) = count(a.allocated_bytes)
),
expandable AS (
    SELECT space, bool_or(is_expandable) AS is_expandable
    FROM (
        SELECT hash(trace_id, process_id, device_id, allocator, NULL::VARCHAR) AS space,
            is_expandable
        FROM memory_segment
        UNION ALL
        SELECT hash(trace_id, process_id, device_id, allocator, memory_kind), true
        FROM memory_event WHERE operation IN ('segment_map', 'segment_unmap')
    )
    GROUP BY space
),
past AS (
    SELECT m.trace_id, m.space, s.process_id, s.device_id, s.allocator, s.memory_kind, m.moment,
        m.sequence, m.timestamp_ns,
        coalesce(r.requested_bytes, s.start_requested_bytes) AS requested_bytes,
        d.allocated_bytes,
        coalesce(r.reserved_bytes, s.start_reserved_bytes) AS held_bytes,
        if(held_bytes >= requested_bytes, held_bytes, NULL) AS reserved_bytes,
        -- An allocator that holds nothing has no free part.
        if(held_bytes = 0, 0, g.free_inside_bytes) AS free_inside_bytes,
        if(held_bytes = 0, 0, g.free_segment_bytes) AS free_segment_bytes,
        if(held_bytes = 0, 0, g.largest_free_bytes) AS largest_free_bytes,
        if(held_bytes = 0, 0, g.whole_page_bytes) AS whole_page_bytes
    FROM _memory_moment AS m
    JOIN memory_space AS s USING (space)
    LEFT JOIN running AS r USING (space, moment)
    LEFT JOIN rounded AS d USING (space, moment)
    -- Ranges below the live bytes are those of a file without events of segments.
    LEFT JOIN ranges AS g
        ON g.space = m.space AND g.moment = m.moment AND g.reserved_bytes >= requested_bytes
),
block AS (
    SELECT trace_id, process_id, device_id, segment_address,
        coalesce(sum(bytes) FILTER (state LIKE 'active%'), 0) AS live_bytes,
        sum(coalesce(requested_bytes, bytes)) FILTER (state LIKE 'active%') AS requested_bytes,
        coalesce(sum(bytes) FILTER (state = 'inactive'), 0) AS free_bytes,
        coalesce(max(bytes) FILTER (state = 'inactive'), 0) AS largest_free_bytes,
        coalesce(sum(greatest(bytes // 20971520 - 1, 0)) FILTER (state = 'inactive'), 0) * 20971520
            AS whole_page_bytes
    FROM memory_block GROUP BY ALL
),
final AS (
    SELECT s.trace_id, s.process_id, s.device_id, s.allocator, NULL::VARCHAR AS memory_kind,
        'end' AS moment, NULL::BIGINT AS sequence, NULL::BIGINT AS timestamp_ns,
        -- Segments state their live bytes, too, should their blocks lack addresses or sizes.
        sum(coalesce(b.requested_bytes, s.requested_bytes, s.active_bytes, 0)) AS requested_bytes,
        sum(coalesce(b.live_bytes, s.active_bytes, 0)) AS allocated_bytes,
        sum(s.total_bytes) AS reserved_bytes,
        coalesce(sum(b.free_bytes) FILTER (b.live_bytes > 0), 0) AS free_inside_bytes,
        coalesce(sum(s.total_bytes) FILTER (coalesce(b.live_bytes, 0) = 0), 0)
            AS free_segment_bytes,
        max(coalesce(b.largest_free_bytes, s.total_bytes)) AS largest_free_bytes,
        coalesce(sum(b.whole_page_bytes) FILTER (b.live_bytes > 0), 0) AS whole_page_bytes
    FROM memory_segment AS s
    LEFT JOIN block AS b
        ON b.trace_id = s.trace_id AND b.process_id IS NOT DISTINCT FROM s.process_id
        AND b.device_id IS NOT DISTINCT FROM s.device_id AND b.segment_address = s.address
    GROUP BY s.trace_id, s.process_id, s.device_id, s.allocator
),
plan AS (
    SELECT trace_id, hash(trace_id, computation) AS space, 'xla' AS allocator,
        computation AS memory_kind, 'plan' AS moment, sum(bytes) AS requested_bytes
    FROM (SELECT DISTINCT trace_id, computation, allocation, bytes FROM memory_plan)
    GROUP BY trace_id, computation
),
state AS (
    SELECT * EXCLUDE (held_bytes) FROM past
    UNION ALL BY NAME
    FROM plan
    UNION ALL BY NAME
    SELECT *, hash(trace_id, process_id, device_id, allocator, memory_kind) AS space FROM final
)
SELECT s.trace_id, s.space, s.process_id, s.device_id, s.allocator, s.memory_kind, s.moment,
    s.sequence, s.timestamp_ns, TRY_CAST(s.requested_bytes AS BIGINT) AS requested_bytes,
    TRY_CAST(s.allocated_bytes AS BIGINT) AS allocated_bytes,
    TRY_CAST(s.reserved_bytes AS BIGINT) AS reserved_bytes,
    TRY_CAST(if(s.reserved_bytes >= coalesce(s.allocated_bytes, s.requested_bytes),
        s.reserved_bytes - coalesce(s.allocated_bytes, s.requested_bytes), NULL) AS BIGINT)
        AS unused_bytes,
    TRY_CAST(s.free_inside_bytes AS BIGINT) AS free_inside_bytes,
    TRY_CAST(s.free_segment_bytes AS BIGINT) AS free_segment_bytes,
    TRY_CAST(s.largest_free_bytes AS BIGINT) AS largest_free_bytes,
    TRY_CAST(s.whole_page_bytes AS BIGINT) AS whole_page_bytes, e.is_expandable
FROM state AS s
LEFT JOIN expandable AS e USING (space)
