/*
title    = "Lines of code of call stacks"
question = "Which line of the program, outside of PyTorch, does a call stack come from?"
source   = """the innermost frame of Python outside of PyTorch; of a stack within PyTorch alone the
    innermost frame of Python, without dispatching frames of torch.nn"""
grain    = "call stack with Python frames"
needs    = ["memory_stack"]
returns  = ["trace_id", "stack_id", "line", "is_data_parallel"]
[columns]
stack_id = "key of the stack"
line = "file with line, and function"
is_data_parallel = "true for a stack within torch.nn.DataParallel"
*/
SELECT trace_id, stack_id,
    format('{}:{} {}', regexp_extract(named.file, '[^/]+$'), coalesce(named.line, 0),
        named.function) AS line,
    is_data_parallel
FROM (
    SELECT trace_id, stack_id,
        arg_min({'file': file, 'line': line, 'function': function},
            -- Frames of PyTorch and of helpers of tensors come after all others.
            if(module IS NULL AND NOT contains(file, '/einops/'), depth, depth + 1000000)) AS named,
        bool_or(module = 'torch.nn.parallel.parallel_apply') IS TRUE AS is_data_parallel
    FROM memory_stack
    WHERE ends_with(file, '.py') AND function NOT IN ('_call_impl', '_wrapped_call_impl')
    GROUP BY trace_id, stack_id
)
