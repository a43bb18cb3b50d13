/*
title = "One block of a segment when a snapshot is taken."
size  = "long"
[privacy]
state = "fixed"
[advice]
missing = "needs a memory snapshot; write one with `torch.cuda.memory._dump_snapshot(FILE)`"
*/
CREATE TABLE memory_block (
    trace_id        VARCHAR NOT NULL, -- the trace
    process_id      BIGINT,           -- key of the process; NULL when unknown
    device_id       INTEGER,          -- device
    segment_address UBIGINT,          -- address of its segment
    address         UBIGINT,          -- first address
    bytes           BIGINT,           -- size
    requested_bytes BIGINT,           -- bytes that the program asked for; NULL when unknown
    state           VARCHAR,          -- active_allocated, active_pending_free (released, a stream
                                      -- still uses it), inactive
    stack_id        BIGINT            -- call stack of the allocation; NULL without one
);
