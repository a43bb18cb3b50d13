/*
title    = "Operations of innermost ranges"
question = "How long do the GPU operations take that each annotated part of the program launches itself?"
source   = "the innermost range around its launch owns an operation"
grain    = "operation name per domain, name and style of the ranges of a trace"
needs    = ["gpu_op"]
optional = ["launch", "innermost_range", "innermost_name"]
[columns.trace_id]
doc = "the trace"
[columns.domain]
doc = "NVTX domain; NULL for the default one"
[columns.range_name]
doc = "name of the ranges (innermost_name); NULL for what was launched outside every range"
[columns.style]
doc = "push_pop or start_end; NULL outside every range"
[columns.op_kind]
doc = "kernel, memcpy, memset or graph"
[columns.op_name]
doc = "kernel name, or the kind of operation"
[columns.operations]
doc = "operations"
[columns.total_ns]
unit = "ns"
doc = "sum of their durations"
*/
-- Operations are grouped by hashes of names, which are shorter.
WITH
named AS (
    SELECT *, hash(domain, name, kind) AS label FROM innermost_name
),
launcher AS (
    SELECT l.trace_id, l.process_id, l.correlation_id, l.is_sole, n.label
    FROM launch l
    JOIN innermost_range i ON i.trace_id = l.trace_id AND i.api_call_id = l.api_call_id
    JOIN named n ON n.trace_id = i.trace_id AND n.nvtx_range_id = i.nvtx_range_id
),
summed AS (
    SELECT o.trace_id, l.label, o.op_kind, o.name AS op_name, count(*) AS operations,
        sum(o.duration_ns)::BIGINT AS total_ns
    FROM gpu_op o
    LEFT JOIN launcher l
        ON  l.trace_id = o.trace_id AND l.correlation_id = o.correlation_id
        AND (l.process_id = o.process_id OR (o.process_id IS NULL AND l.is_sole))
    GROUP BY ALL
)
SELECT s.trace_id, n.domain, n.name AS range_name, n.kind AS style, s.op_kind, s.op_name, s.operations,
    s.total_ns
FROM summed s
LEFT JOIN (SELECT DISTINCT trace_id, label, domain, name, kind FROM named) n USING (trace_id, label)
