/*
title    = "Memory that an allocator held at a moment"
question = "Which ranges of addresses did the allocator hold, and what was free in them?"
source   = """for each range of addresses the last event before the moment; without one the
    opposite of the first event after it; without any, the final snapshot. Only spaces whose ranges
    add up to the held bytes. Up to 1 MiB behind a block of more than 1 MiB belong to the block,
    since PyTorch splits off such rests only in expandable segments"""
grain    = "segment, or contiguous part of an expandable segment"
needs    = ["memory_segment", "_memory_moment"]
optional = ["allocation", "memory_event", "memory_running", "memory_space"]
returns = [
    "trace_id", "space", "moment", "address", "bytes", "live_bytes", "largest_free_bytes",
    "whole_page_bytes", "is_expandable",
]
[columns]
bytes = {unit = "byte", doc = "size"}
live_bytes = "bytes in live blocks, with rounding"
largest_free_bytes = "largest free part; 0 without one"
whole_page_bytes = """free bytes in whole pages of 20 MiB, the least that an expandable segment
    returns of blocks of more than 1 MiB"""
is_expandable = "true for a part of an expandable segment"
*/
WITH
event AS (
    SELECT hash(trace_id, process_id, device_id, allocator, memory_kind) AS space, sequence,
        operation IN ('segment_allocate', 'segment_map') AS is_taken,
        operation IN ('segment_map', 'segment_unmap') AS is_expandable,
        address, address + bytes AS end_address
    FROM memory_event
    WHERE operation IN ('segment_allocate', 'segment_free', 'segment_map', 'segment_unmap')
        AND address IS NOT NULL AND bytes > 0
),
final AS (
    SELECT hash(trace_id, process_id, device_id, allocator, NULL::VARCHAR) AS space,
        coalesce(is_expandable, false) AS is_expandable, address,
        address + total_bytes AS end_address
    FROM memory_segment WHERE address IS NOT NULL AND total_bytes > 0
),
bound AS (
    SELECT space, address FROM event
    UNION
    SELECT space, end_address FROM event
    UNION
    SELECT space, address FROM final
    UNION
    SELECT space, end_address FROM final
),
piece AS (
    SELECT space, address, lead(address) OVER (PARTITION BY space ORDER BY address) AS end_address
    FROM bound
),
-- An event covers one piece or a few, so that the pieces of its range are few.
covering AS (
    SELECT p.space, p.address, e.sequence, e.is_taken, e.is_expandable, e.address AS first_address
    FROM piece AS p
    JOIN event AS e
        ON e.space = p.space AND e.address <= p.address AND e.end_address >= p.end_address
),
in_final AS (
    SELECT p.space, p.address, f.is_expandable, f.address AS first_address
    FROM piece AS p
    JOIN final AS f
        ON f.space = p.space AND f.address <= p.address AND f.end_address >= p.end_address
),
seen AS (
    SELECT m.space, m.moment, c.address,
        arg_max(c.is_taken, c.sequence) FILTER (c.sequence <= m.sequence) AS before,
        arg_min(c.is_taken, c.sequence) FILTER (c.sequence > m.sequence) AS after,
        bool_or(c.is_expandable) AS is_expandable,
        -- The segment of the piece: adjacent segments are apart.
        coalesce(arg_max(c.first_address, c.sequence) FILTER (c.sequence <= m.sequence),
            arg_min(c.first_address, c.sequence)) AS first_address
    FROM _memory_moment AS m
    JOIN covering AS c USING (space)
    GROUP BY m.space, m.moment, c.address
),
held AS (
    SELECT m.trace_id, m.space, m.moment, p.address, p.end_address,
        coalesce(s.is_expandable, f.is_expandable) AS is_expandable,
        coalesce(s.first_address, f.first_address) AS first_address
    FROM _memory_moment AS m
    JOIN piece AS p USING (space)
    LEFT JOIN seen AS s
        ON s.space = p.space AND s.moment = m.moment AND s.address = p.address
    LEFT JOIN in_final AS f ON f.space = p.space AND f.address = p.address
    WHERE coalesce(s.before, NOT s.after, f.address IS NOT NULL)
),
started AS (
    SELECT *,
        lag(end_address) OVER in_order IS DISTINCT FROM address
        OR NOT is_expandable
        AND lag(first_address) OVER in_order IS DISTINCT FROM first_address AS starts
    FROM held
    WINDOW in_order AS (PARTITION BY space, moment ORDER BY address)
),
numbered AS (
    SELECT *, sum(starts::INTEGER) OVER (
        PARTITION BY space, moment ORDER BY address ROWS UNBOUNDED PRECEDING) AS number
    FROM started
),
part AS (
    SELECT trace_id, space, moment, number, min(address) AS address,
        max(end_address) AS end_address, bool_or(is_expandable) AS is_expandable
    FROM numbered GROUP BY trace_id, space, moment, number
),
reserved AS (
    SELECT m.space, m.moment, coalesce(max_by(r.reserved_bytes, r.sequence),
        any_value(s.start_reserved_bytes)) AS reserved_bytes
    FROM _memory_moment AS m
    JOIN memory_space AS s USING (space)
    LEFT JOIN memory_running AS r ON r.space = m.space AND r.sequence <= m.sequence
    GROUP BY m.space, m.moment
),
complete AS (
    SELECT p.space, p.moment
    FROM part AS p
    JOIN reserved AS r USING (space, moment)
    GROUP BY p.space, p.moment, r.reserved_bytes
    HAVING sum(p.end_address - p.address) = r.reserved_bytes
),
block AS (
    SELECT b.space, b.moment, b.address, b.allocated_bytes, p.address AS part_address,
        p.end_address AS part_end, p.is_expandable
    FROM (
        SELECT a.space, m.moment, a.address, a.allocated_bytes
        FROM allocation AS a
        JOIN _memory_moment AS m USING (space)
        WHERE a.address IS NOT NULL AND coalesce(a.born_sequence, -1) <= m.sequence
            AND coalesce(a.died_sequence > m.sequence, true)
    ) AS b
    ASOF JOIN part AS p
        ON p.space = b.space AND p.moment = b.moment AND b.address >= p.address
    WHERE b.address < p.end_address
),
-- The free part before the first block, and that behind each block.
gap AS (
    SELECT *,
        lead(address::HUGEINT, 1, part_end) OVER in_order - address - allocated_bytes
            AS behind_bytes,
        if(lag(address) OVER in_order IS NULL, address - part_address, 0) AS before_bytes
    FROM block
    WINDOW in_order AS (PARTITION BY space, moment, part_address ORDER BY address)
),
free AS (
    SELECT space, moment, part_address, allocated_bytes, before_bytes,
        CASE WHEN NOT is_expandable AND allocated_bytes > 1048576
                AND behind_bytes BETWEEN 0 AND 1048576 THEN behind_bytes ELSE 0 END AS rest_bytes,
        greatest(behind_bytes - rest_bytes, 0) AS behind_bytes
    FROM gap
),
filled AS (
    SELECT space, moment, part_address, sum(allocated_bytes + rest_bytes) AS live_bytes,
        max(greatest(behind_bytes, before_bytes)) AS largest_free_bytes,
        -- Of pages at unknown places, one is not whole.
        sum(greatest(behind_bytes // 20971520 - 1, 0) + greatest(before_bytes // 20971520 - 1, 0))
            * 20971520 AS whole_page_bytes
    FROM free GROUP BY space, moment, part_address
)
SELECT p.trace_id, p.space, p.moment, p.address::UBIGINT AS address,
    TRY_CAST(p.end_address - p.address AS BIGINT) AS bytes,
    TRY_CAST(coalesce(f.live_bytes, 0) AS BIGINT) AS live_bytes,
    TRY_CAST(coalesce(f.largest_free_bytes, p.end_address - p.address) AS BIGINT)
        AS largest_free_bytes,
    TRY_CAST(coalesce(f.whole_page_bytes, 0) AS BIGINT) AS whole_page_bytes, p.is_expandable
FROM part AS p
SEMI JOIN complete AS c USING (space, moment)
LEFT JOIN filled AS f
    ON f.space = p.space AND f.moment = p.moment AND f.part_address = p.address
