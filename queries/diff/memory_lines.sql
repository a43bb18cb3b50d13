/*
title    = "Memory of two runs, by line of code"
question = "Which lines of code hold more or fewer bytes at the peak of B than at that of A?"
source   = """memory_holder side by side; lines of the memory spaces that both sides have, where
    both have call stacks or layers"""
grain    = "class and line of code or layer that differs"
needs    = ["diff_side", "memory_holder", "memory_space"]
optional = ["process", "trace"]
returns = [
    "rank", "allocator", "class", "line", "a_bytes", "b_bytes", "change_bytes", "a_allocations",
    "b_allocations",
]
[columns]
rank = """number of the memory space among those of its allocator and kind on each side, ordered by
    trace name, process id and device"""
class = "class of the bytes"
line = "line of the program with its function, else layer"
a_bytes = "bytes live at the peak of A; 0 if the line holds none"
b_bytes = "bytes live at the peak of B; 0 if the line holds none"
change_bytes = "B − A"
a_allocations = "allocations in A"
b_allocations = "allocations in B"
*/
WITH
ranked AS (
    SELECT d.side, m.space, m.allocator, m.memory_kind,
        row_number() OVER (
            PARTITION BY d.side, m.allocator, m.memory_kind
            ORDER BY t.name, m.trace_id, p.pid, m.process_id, m.device_id
        ) - 1 AS rank
    FROM diff_side AS d
    JOIN memory_space AS m USING (trace_id)
    JOIN trace AS t ON t.trace_id = d.trace_id
    LEFT JOIN process AS p ON p.trace_id = d.trace_id AND p.process_id = m.process_id
),
held AS (
    SELECT r.side, r.rank, r.allocator, r.memory_kind, h.class, coalesce(h.line, h.layer) AS line,
        sum(h.requested_bytes)::BIGINT AS bytes, sum(h.allocations)::BIGINT AS allocations
    FROM ranked AS r
    JOIN memory_holder AS h USING (space)
    WHERE coalesce(h.line, h.layer) IS NOT NULL
    GROUP BY ALL
),
-- A side without call stacks holds bytes of unknown lines, not none.
both_sides AS (
    SELECT rank, allocator, memory_kind FROM held
    GROUP BY rank, allocator, memory_kind HAVING count(DISTINCT side) = 2
),
paired AS (
    SELECT h.rank, h.allocator, h.memory_kind, h.class, h.line,
        coalesce(sum(h.bytes) FILTER (h.side = 'A'), 0)::BIGINT AS a_bytes,
        coalesce(sum(h.bytes) FILTER (h.side = 'B'), 0)::BIGINT AS b_bytes,
        coalesce(sum(h.allocations) FILTER (h.side = 'A'), 0)::BIGINT AS a_allocations,
        coalesce(sum(h.allocations) FILTER (h.side = 'B'), 0)::BIGINT AS b_allocations
    FROM held AS h
    JOIN both_sides AS b
        ON b.rank = h.rank AND b.allocator IS NOT DISTINCT FROM h.allocator
        AND b.memory_kind IS NOT DISTINCT FROM h.memory_kind
    GROUP BY ALL
)
SELECT rank, allocator, class, line, a_bytes, b_bytes, b_bytes - a_bytes AS change_bytes,
    a_allocations, b_allocations
FROM paired
WHERE a_bytes <> b_bytes
ORDER BY abs(b_bytes - a_bytes) DESC, rank, allocator, memory_kind, class, line
