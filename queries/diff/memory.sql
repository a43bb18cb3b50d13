/*
title    = "Memory of two runs"
question = "Is the memory peak of B higher or lower than that of A, and by which classes?"
source   = """memory_peak and memory_breakdown side by side; classes are compared only if both sides
    know them by the same evidence"""
grain    = "measure of a memory space that both sides have"
needs    = ["diff_side", "allocation", "peak_memory"]
optional = ["memory_space", "process", "trace"]
returns = [
    "rank", "allocator", "memory_kind", "measure", "a_bytes", "b_bytes", "change_bytes",
    "change_pct", "evidence_a", "evidence_b",
]
[columns]
rank = """number of the memory space among those of its allocator and kind on each side, ordered by
    trace name, process id and device"""
memory_kind = "kind of memory, as recorded by a profiler of CUDA; NULL otherwise"
measure = "peak requested, peak reserved (at any time), or the class of bytes live at the peak"
a_bytes = """bytes in A; for a class that A lacks 0, or NULL if A has bytes of unknown class or
    other evidence; NULL when unknown"""
b_bytes = "bytes in B, by the same rules"
change_bytes = "B − A; NULL unless both are known by the same evidence"
change_pct = "change ÷ bytes in A; NULL if A has none"
evidence_a = """of a class in A: collector, stack, none; of the peaks: measured, estimated (from
    shapes), modelled (reserved bytes of a model of PyTorch's allocator)"""
evidence_b = "evidence in B"
[plot]
kind = "grouped_barh"
x = ["measure", "rank", "allocator", "memory_kind"]
y = [["a_bytes", "b_bytes"]]
limit = 24
title = "Memory at the peak"
*/
WITH
ranked AS (
    SELECT d.side, m.space, m.allocator, m.memory_kind, k.sequence, k.requested_bytes,
        if(k.reserved_bytes >= k.requested_bytes, k.reserved_bytes, NULL) AS reserved_bytes,
        if(
            list_contains(t.notes, 'estimated: tensors had shapes but no data'),
            'estimated', 'measured'
        ) AS evidence,
        len(list_filter(
            t.notes, lambda note: starts_with(note, 'reserved bytes are those of a model')
        )) > 0 AS is_modelled,
        row_number() OVER (
            PARTITION BY d.side, m.allocator, m.memory_kind
            ORDER BY t.name, m.trace_id, p.pid, m.process_id, m.device_id
        ) - 1 AS rank
    FROM diff_side AS d
    JOIN memory_space AS m USING (trace_id)
    JOIN peak_memory AS k USING (space)
    JOIN trace AS t ON t.trace_id = d.trace_id
    LEFT JOIN process AS p ON p.trace_id = d.trace_id AND p.process_id = m.process_id
),
pair AS (
    SELECT a.rank, a.allocator, a.memory_kind, a.space AS a_space, b.space AS b_space,
        a.requested_bytes AS a_requested, b.requested_bytes AS b_requested,
        a.reserved_bytes AS a_reserved, b.reserved_bytes AS b_reserved,
        a.evidence AS a_evidence, b.evidence AS b_evidence,
        if(a.is_modelled, 'modelled', a.evidence) AS a_reserved_evidence,
        if(b.is_modelled, 'modelled', b.evidence) AS b_reserved_evidence
    FROM ranked AS a
    JOIN ranked AS b
        ON b.rank = a.rank AND b.allocator IS NOT DISTINCT FROM a.allocator
        AND b.memory_kind IS NOT DISTINCT FROM a.memory_kind
    WHERE a.side = 'A' AND b.side = 'B'
),
live AS (
    SELECT k.space, a.class, sum(a.requested_bytes)::BIGINT AS bytes,
        string_agg(DISTINCT a.evidence, ',' ORDER BY a.evidence) AS evidence
    FROM peak_memory AS k
    JOIN allocation AS a USING (space)
    WHERE (a.born_sequence IS NULL OR a.born_sequence <= k.sequence)
        AND (a.died_sequence IS NULL OR a.died_sequence > coalesce(k.sequence, -1))
    GROUP BY k.space, a.class
),
-- Evidence of all classes of a space: a class that it cannot show is not 0.
known AS (
    SELECT k.space, coalesce(bool_or(l.class = 'unknown'), false) AS has_unknown,
        string_agg(DISTINCT l.evidence, ',' ORDER BY l.evidence) FILTER (l.class <> 'unknown')
            AS evidence
    FROM peak_memory AS k
    LEFT JOIN live AS l USING (space)
    GROUP BY k.space
),
class_of AS (
    SELECT DISTINCT p.rank, p.allocator, p.memory_kind, p.a_space, p.b_space, l.class,
        a.has_unknown AS a_has_unknown, b.has_unknown AS b_has_unknown,
        a.evidence IS NOT DISTINCT FROM b.evidence AS is_alike
    FROM pair AS p
    JOIN known AS a ON a.space = p.a_space
    JOIN known AS b ON b.space = p.b_space
    JOIN live AS l ON l.space IN (p.a_space, p.b_space)
),
measured AS (
    SELECT rank, allocator, memory_kind, 0 AS position, 'peak requested' AS measure,
        a_requested AS a, b_requested AS b, a_evidence = b_evidence AS is_alike,
        a_evidence AS evidence_a, b_evidence AS evidence_b
    FROM pair
    UNION ALL
    SELECT rank, allocator, memory_kind, 1, 'peak reserved', a_reserved, b_reserved,
        a_reserved_evidence = b_reserved_evidence,
        if(a_reserved IS NULL, NULL, a_reserved_evidence),
        if(b_reserved IS NULL, NULL, b_reserved_evidence)
    FROM pair
    UNION ALL
    SELECT c.rank, c.allocator, c.memory_kind, 2, c.class,
        coalesce(a.bytes, if(c.is_alike AND NOT c.a_has_unknown, 0, NULL)),
        coalesce(b.bytes, if(c.is_alike AND NOT c.b_has_unknown, 0, NULL)),
        c.is_alike, a.evidence, b.evidence
    FROM class_of AS c
    LEFT JOIN live AS a ON a.space = c.a_space AND a.class = c.class
    LEFT JOIN live AS b ON b.space = c.b_space AND b.class = c.class
)
SELECT rank, allocator, memory_kind, measure, a::BIGINT AS a_bytes, b::BIGINT AS b_bytes,
    if(is_alike, b_bytes - a_bytes, NULL) AS change_bytes,
    100.0 * change_bytes / nullif(a_bytes, 0) AS change_pct,
    evidence_a, evidence_b
FROM measured
WHERE a IS NOT NULL OR b IS NOT NULL
ORDER BY rank, allocator, memory_kind, position,
    greatest(coalesce(a_bytes, 0), coalesce(b_bytes, 0)) DESC, measure
