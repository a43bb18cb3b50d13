/*
title    = "Numbered parts of a model"
question = "When does each numbered part of a model (Block_3, encoder.block.14) run?"
source   = "calls of modules, and ranges whose text numbers a layer, a block or the like"
grain    = """call of a module or range of a numbered part, in a process without marks of
    iterations; of processes with over 20,000, those of a sample of parts"""
optional = ["annotation_range", "_iteration_mark"]
returns = ["trace_id", "process_id", "thread_id", "start_ns", "part", "family"]
[columns]
thread_id = "key of the thread"
start_ns = "start"
part = "text without what differs from call to call (seq, op_id, sizes)"
family = "the part, with # for numbers"
*/
WITH
named AS (
    SELECT trace_id, process_id, thread_id, start_ns,
        CASE WHEN source = 'module' THEN text ELSE regexp_extract(text, '^[^,]*') END AS part
    FROM annotation_range r
    WHERE source IS DISTINCT FROM 'profiler' AND kind = 'push_pop'
      AND (source = 'module' OR regexp_matches(text, '(?i)^[^,]*(?:layers?|blocks?|stages?|modules?'
              || '|encoders?|decoders?|experts?)[\W_]*\d'))
      AND NOT EXISTS (
          SELECT 1 FROM _iteration_mark k
          WHERE k.trace_id = r.trace_id AND k.process_id IS NOT DISTINCT FROM r.process_id)
)
SELECT *, regexp_replace(part, '\d+', '#', 'g') AS family
FROM named
-- Whole parts are drawn, because single calls would look as if each part ran once.
QUALIFY hash(part) % (1 + count(*) OVER (PARTITION BY trace_id, process_id) // 20_000) = 0
