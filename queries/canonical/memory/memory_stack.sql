/*
title  = "One frame of a call stack; each distinct stack is stored once."
lookup = true
size   = "long"
[privacy]
function = "code"
file     = "file"
module   = "fixed"
*/
CREATE TABLE memory_stack (
    trace_id VARCHAR NOT NULL, -- the trace
    stack_id BIGINT NOT NULL,  -- key of the stack within the trace
    depth    INTEGER NOT NULL, -- 0 is the innermost frame
    function VARCHAR,          -- function
    file     VARCHAR,          -- source file
    module   VARCHAR,          -- module of the file if it belongs to PyTorch, for example
                               -- torch.optim.optimizer; NULL for other files
    line     INTEGER           -- line; NULL when unknown
);
