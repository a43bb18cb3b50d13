/*
title    = "Segments at the peak"
question = "Which segments did the allocator hold at the peak, and how full were they?"
source   = """events of segments, and segments of the final snapshot without events, if they add up
    to the bytes held at the peak. Up to 1 MiB behind a block of more than 1 MiB belong to the
    block, since PyTorch does not split off such rests"""
grain    = "segment"
needs    = ["memory_segment", "_relevant_memory"]
optional = ["allocation", "memory_event", "memory_running", "memory_space"]
returns = ["trace_id", "space", "address", "bytes", "live_bytes"]
[columns]
bytes = {unit = "byte", doc = "size"}
live_bytes = "bytes in live blocks, with rounding"
*/
WITH
event AS (
    SELECT hash(trace_id, process_id, device_id, allocator, memory_kind) AS space, sequence,
        operation, address, bytes
    FROM memory_event
    WHERE operation IN ('segment_allocate', 'segment_free', 'segment_map', 'segment_unmap')
),
-- Expandable segments grow and shrink at their ends: their free memory is not fragmented.
fixed AS (
    SELECT j.trace_id, j.space, j.peak_sequence
    FROM _relevant_memory AS j
    WHERE j.space NOT IN (
        SELECT space FROM event WHERE operation IN ('segment_map', 'segment_unmap')
        UNION
        SELECT hash(trace_id, process_id, device_id, allocator, NULL::VARCHAR)
        FROM memory_segment WHERE is_expandable
    )
),
change AS (
    SELECT *, lead(sequence) OVER in_order AS next_sequence,
        lag(sequence) OVER in_order IS NULL AS is_first
    FROM event
    WINDOW in_order AS (PARTITION BY space, address ORDER BY sequence)
),
segment AS (
    SELECT f.trace_id, f.space, c.address, c.bytes, f.peak_sequence
    FROM change AS c
    JOIN fixed AS f USING (space)
    WHERE CASE c.operation
        WHEN 'segment_allocate' THEN c.sequence <= f.peak_sequence
            AND coalesce(c.next_sequence > f.peak_sequence, true)
        ELSE c.is_first AND c.sequence > f.peak_sequence
    END
    UNION ALL
    SELECT f.trace_id, f.space, s.address, s.total_bytes, f.peak_sequence
    FROM memory_segment AS s
    JOIN fixed AS f
        ON f.space = hash(s.trace_id, s.process_id, s.device_id, s.allocator, NULL::VARCHAR)
    ANTI JOIN event AS e ON e.space = f.space AND e.address = s.address
),
reserved AS (
    SELECT f.space, coalesce(r.reserved_bytes, m.start_reserved_bytes) AS reserved_bytes
    FROM fixed AS f
    JOIN memory_space AS m USING (space)
    LEFT JOIN memory_running AS r ON r.space = f.space AND r.sequence = f.peak_sequence
),
complete AS (
    SELECT space FROM segment JOIN reserved USING (space)
    GROUP BY space, reserved_bytes HAVING sum(bytes) = reserved_bytes
),
block AS (
    SELECT a.space, a.address, a.allocated_bytes, s.address AS segment_address,
        s.address + s.bytes AS segment_end
    FROM (
        SELECT a.space, a.address, a.allocated_bytes
        FROM allocation AS a
        JOIN fixed AS f USING (space)
        WHERE a.address IS NOT NULL AND coalesce(a.born_sequence, -1) <= f.peak_sequence
            AND coalesce(a.died_sequence > f.peak_sequence, true)
    ) AS a
    ASOF JOIN segment AS s ON s.space = a.space AND a.address >= s.address
    WHERE a.address < s.address + s.bytes
),
ended AS (
    SELECT *,
        lead(address, 1, segment_end) OVER (
            PARTITION BY space, segment_address ORDER BY address
        ) - address - allocated_bytes AS gap_bytes
    FROM block
),
filled AS (
    SELECT space, segment_address,
        sum(allocated_bytes + if(
            allocated_bytes > 1048576 AND gap_bytes BETWEEN 0 AND 1048576, gap_bytes, 0
        )) AS live_bytes
    FROM ended GROUP BY space, segment_address
)
SELECT s.trace_id, s.space, s.address, s.bytes, coalesce(b.live_bytes, 0)::BIGINT AS live_bytes
FROM segment AS s
SEMI JOIN complete AS c USING (space)
LEFT JOIN filled AS b ON b.space = s.space AND b.segment_address = s.address
