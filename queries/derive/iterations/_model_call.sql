/*
title    = "Calls that contain no steps"
question = "Which calls hold only a part of a step: one pass of a model, one operator, one phase?"
source   = """calls of modules and operators recorded by the framework, and ranges of the program
    that name a phase (forward, backward, …)"""
grain    = """call that is not inside another such call of its thread, in a process without marks
    of iterations"""
needs    = ["_annotation_role"]
optional = ["annotation_range", "_iteration_mark", "trace"]
returns = ["trace_id", "process_id", "thread_id", "start_ns", "end_ns"]
[columns]
thread_id = "key of the thread"
start_ns = "start"
end_ns = "end"
*/
-- Other ranges of the program prove nothing: "resnet50_inference" may be one pass or a loop of
-- many.
WITH
call AS (
    SELECT trace_id, domain, text FROM _annotation_role
    WHERE NOT (is_library OR is_iteration)
      AND (phase IN ('forward', 'loss', 'backward', 'optimizer')
           OR layer_kind IN ('convention', 'stack', 'module', 'operator')
           OR origin = 'torch module' OR seq IS NOT NULL OR is_backward
           OR regexp_matches(text, '(?:Parallel|DDP|FSDP)\.forward\b'))
),
-- nsys closes calls that raised an exception together, at the end of the trace.
closed_last AS (
    SELECT trace_id, r.end_ns
    FROM annotation_range r JOIN trace c USING (trace_id)
    WHERE r.end_ns = c.end_ns
    GROUP BY ALL HAVING count(*) > 1
)
SELECT r.trace_id, r.process_id, r.thread_id, r.start_ns, r.end_ns
FROM annotation_range r
SEMI JOIN call m
    ON m.trace_id = r.trace_id AND m.domain IS NOT DISTINCT FROM r.domain AND m.text = r.text
ANTI JOIN closed_last c ON c.trace_id = r.trace_id AND c.end_ns = r.end_ns
WHERE r.kind = 'push_pop' AND NOT r.is_open
  AND NOT EXISTS (
      SELECT 1 FROM _iteration_mark k
      WHERE k.trace_id = r.trace_id AND k.process_id IS NOT DISTINCT FROM r.process_id)
QUALIFY (r.end_ns <= max(r.end_ns) OVER (
    PARTITION BY r.trace_id, r.process_id, r.thread_id
    ORDER BY r.start_ns, r.end_ns DESC, r.annotation_id
    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)) IS NOT TRUE
