/*
title    = "Code of call stacks"
question = "Which Python code does a call stack come from?"
source   = "the four innermost Python frames, without dispatching frames of torch.nn"
grain    = "call stack with Python frames"
needs    = ["memory_stack"]
returns = ["trace_id", "stack_id", "code"]
[columns]
stack_id = "key of the stack"
code = "functions with file and line, outermost last"
*/
SELECT trace_id, stack_id,
    string_agg(
        format('{} ({}:{})', function, regexp_extract(file, '[^/]+$'), coalesce(line, 0)),
        ' < ' ORDER BY depth
    ) AS code
FROM (
    FROM memory_stack
    WHERE ends_with(file, '.py') AND function NOT IN ('_call_impl', '_wrapped_call_impl')
    QUALIFY row_number() OVER (PARTITION BY trace_id, stack_id ORDER BY depth) <= 4
)
GROUP BY trace_id, stack_id
