/*
title    = "GPU operations by innermost NVTX range"
question = """How long do the GPU operations take that each annotated part of the program launches
    directly?"""
source   = "an operation belongs to the innermost range around its launch"
grain    = "operation name per domain, name and style of NVTX ranges, per trace"
needs    = ["gpu_op"]
optional = ["op_launch", "_innermost_range", "innermost_name"]
returns = [
    "trace_id", "domain", "range_name", "style", "op_kind", "op_name", "operations", "total_ns",
]
[columns]
range_name = "name of the ranges (innermost_name); NULL for launches outside all ranges"
style = "push_pop or start_end; NULL outside all ranges"
op_kind = "kernel, memcpy, memset or graph"
op_name = "kernel name, or kind of operation"
operations = "operations"
total_ns = "sum of durations"
*/
-- Operations are grouped by hashes of names, which are shorter. Texts that differ only in sequence
-- numbers sometimes collide; these get different labels.
WITH
hashed AS NOT MATERIALIZED (
    SELECT *, hash(domain, name, kind) AS name_hash FROM innermost_name
),
spelled AS MATERIALIZED (
    SELECT *,
        row_number() OVER (PARTITION BY trace_id, name_hash ORDER BY domain, name, kind) AS number,
        CASE WHEN number = 1 THEN name_hash ELSE hash(name_hash, number) END AS label
    FROM (SELECT DISTINCT trace_id, name_hash, domain, name, kind FROM hashed)
),
labelled AS (
    SELECT h.trace_id, h.annotation_id, coalesce(n.label, h.name_hash) AS label
    FROM hashed h
    LEFT JOIN (FROM spelled WHERE number > 1) n
        ON  n.trace_id = h.trace_id AND n.name_hash = h.name_hash
        AND n.name IS NOT DISTINCT FROM h.name
        AND n.kind = h.kind AND n.domain IS NOT DISTINCT FROM h.domain
),
launcher AS (
    SELECT i.trace_id, i.api_call_id, n.label
    FROM _innermost_range i
    JOIN labelled n ON n.trace_id = i.trace_id AND n.annotation_id = i.annotation_id
),
summed AS (
    SELECT o.trace_id, l.label, o.op_kind, o.name AS op_name, count(*) AS operations,
        sum(o.duration_ns)::BIGINT AS total_ns
    FROM gpu_op o
    LEFT JOIN op_launch c USING (trace_id, op_kind, op_id)
    LEFT JOIN launcher l ON l.trace_id = c.trace_id AND l.api_call_id = c.api_call_id
    GROUP BY ALL
)
SELECT s.trace_id, n.domain, n.name AS range_name, n.kind AS style, s.op_kind, s.op_name,
    s.operations,
    s.total_ns
FROM summed s
LEFT JOIN spelled n USING (trace_id, label)
