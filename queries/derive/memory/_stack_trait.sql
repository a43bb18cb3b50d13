/*
title    = "What call stacks show"
question = "In which phase of training does a call stack allocate or release?"
source   = "names of functions and modules of PyTorch in the frames"
grain    = "call stack"
needs    = ["memory_stack"]
returns = [
    "trace_id", "stack_id", "phase", "is_workspace", "is_communication", "is_transfer",
    "is_gradient_seed", "is_zero_grad", "operator", "layer",
]
[columns]
stack_id = "key of the stack"
phase = "optimizer, recompute, backward, forward, setup; NULL if the frames show none"
is_workspace = "true for scratch memory of a library"
is_communication = "true for buffers of collectives"
is_transfer = "true for a tensor that a script copies to the device, outside of any module"
is_gradient_seed = "true for the gradient of the loss, which backward begins with"
is_zero_grad = "true for a release of gradients by `zero_grad`"
operator = "innermost operator of PyTorch"
layer = "innermost file and function of a module's forward; NULL outside of modules"
*/
WITH
-- A frame is repeated in many stacks: evaluate each once.
frame AS (
    SELECT DISTINCT function, file, module FROM memory_stack
),
evaluated AS (
    -- Paths are redacted in archives, modules are not.
    SELECT function, file, module,
        starts_with(function, 'torch::autograd::Engine') AS in_engine,
        starts_with(module, 'torch.optim.') AS in_optimizer,
        starts_with(module, 'torch.nn.modules.') OR starts_with(module, 'torch.nn.parallel.')
            AS in_module,
        ends_with(file, '.py') AS in_python,
        function IN ('forward', '__call__') AND ends_with(file, '.py') AS in_forward,
        module = 'torch.nn.modules.module' AND function IN ('_apply', 'convert', 'to')
            OR function = '__init__' AND ends_with(file, '.py') AS in_setup,
        regexp_matches(function, '[Ww]orkspace|cublas\w*Handle|cudnn\w*Handle') AS in_workspace,
        regexp_matches(function, 'c10d::|[Nn][Cc][Cc][Ll]')
            OR starts_with(module, 'torch.distributed.') AS in_communication,
        regexp_matches(function, 'THPVariable_(cuda|to)\b|at::native::_?to(_copy)?\b') AS in_copy,
        function = '_make_grads' AS in_seed,
        function = 'zero_grad' AND ends_with(file, '.py') AS in_zero_grad,
        regexp_extract(function, '^at::_ops::(\w+?)(?:_Tensor|_Scalar)?::', 1) AS operator,
        -- A module of the user or of a library, not the dispatching frames of torch.nn.
        if(
            function = 'forward' AND ends_with(file, '.py'),
            regexp_extract(file, '([^/]+)\.py$', 1) || '.forward', NULL
        ) AS layer
    FROM frame
),
stack AS (
    SELECT s.trace_id, s.stack_id,
        bool_or(j.in_engine) AS in_engine,
        bool_or(j.in_optimizer) AS in_optimizer,
        bool_or(j.in_module OR j.in_forward) AS in_module,
        bool_or(j.in_python) AS in_python,
        bool_or(j.in_setup) AS in_setup,
        bool_or(j.in_workspace) AS in_workspace,
        bool_or(j.in_communication) AS in_communication,
        bool_or(j.in_copy) AS in_copy,
        bool_or(j.in_seed) AS in_seed,
        bool_or(j.in_zero_grad) AS in_zero_grad,
        arg_min(j.operator, s.depth) FILTER (j.operator <> '') AS operator,
        arg_min(j.layer, s.depth) AS layer
    FROM memory_stack AS s
    JOIN evaluated AS j
        ON j.function IS NOT DISTINCT FROM s.function AND j.file IS NOT DISTINCT FROM s.file
        AND j.module IS NOT DISTINCT FROM s.module
    GROUP BY s.trace_id, s.stack_id
)
SELECT trace_id, stack_id,
    CASE
        WHEN in_optimizer THEN 'optimizer'
        -- Modules run within backward only to make feature maps again.
        WHEN in_engine AND in_module THEN 'recompute'
        WHEN in_engine OR in_seed THEN 'backward'
        WHEN in_setup THEN 'setup'
        WHEN in_python THEN 'forward'
    END AS phase,
    coalesce(in_workspace, false) AS is_workspace,
    coalesce(in_communication, false) AS is_communication,
    coalesce(in_copy AND NOT coalesce(in_module, false), false) AS is_transfer,
    coalesce(in_seed, false) AS is_gradient_seed,
    coalesce(in_zero_grad, false) AS is_zero_grad,
    operator, layer
FROM stack
