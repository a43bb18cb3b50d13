/*
title        = "One operation that PyTorch's Flight Recorder has recorded on one rank."
times        = ["created_ns"]
[privacy]
group_name        = "text"
group_description = "text"
backend           = "fixed"
operation         = "text"
input_shapes      = "fixed"
input_dtypes      = "fixed"
output_shapes     = "fixed"
output_dtypes     = "fixed"
state             = "fixed"
function          = "code"
file              = "file"
[advice]
missing = """needs dumps of PyTorch's Flight Recorder; record them with
`tbd-trace collect --ranks N`, or set TORCH_FR_BUFFER_SIZE=2000"""
*/
CREATE TABLE flight_record (
    trace_id          VARCHAR NOT NULL, -- the trace: the dump of one rank
    record_id         BIGINT NOT NULL,  -- position in the dump, from 0: order of the calls
    local_group_id    BIGINT,           -- id of the process group on this rank; other ranks can
                                        -- give the same group another id
    group_name        VARCHAR,          -- process group; the same on all ranks
    group_description VARCHAR,          -- purpose of the group, such as default_pg
    sequence          BIGINT,           -- number of the collective in its group, the same on all
                                        -- ranks
    p2p_sequence      BIGINT,           -- number of the send or receive in its group
    operation_id      BIGINT,           -- number of the operation in its group, with operations
                                        -- that are not recorded
    is_point_to_point BOOLEAN,          -- true for a send or receive
    backend           VARCHAR,          -- nccl or gloo; NULL when unknown
    operation         VARCHAR,          -- such as all_reduce, as PyTorch writes it
    peer              BIGINT,           -- other rank of a send or receive, as number in the group
    input_shapes      VARCHAR,          -- shapes of the inputs, as JSON
    input_dtypes      VARCHAR,          -- types of their elements, as JSON
    output_shapes     VARCHAR,          -- shapes of the outputs, as JSON
    output_dtypes     VARCHAR,          -- types of their elements, as JSON
    state             VARCHAR,          -- scheduled, started or completed; always scheduled with
                                        -- gloo
    is_retired        BOOLEAN,          -- true if it has ended: completed, failed or timed out
    created_ns        BIGINT,           -- time of the call, UTC
    started_ns        BIGINT,           -- discovery of the start; NULL when unknown
    completed_ns      BIGINT,           -- discovery of the end; NULL when unknown
    timeout_ns        BIGINT,           -- timeout of the operation
    function          VARCHAR,          -- function of the program that calls it; NULL without
                                        -- stacks, as in JSON
    file              VARCHAR,          -- its file
    line              BIGINT            -- its line
);
