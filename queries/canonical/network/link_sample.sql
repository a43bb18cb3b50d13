/*
title = "One measurement of a collective by nccl-tests: a message size, in place or out of place."
[privacy]
kind          = "fixed"
kind_evidence = "fixed"
placement     = "fixed"
dtype         = "text"
operation     = "text"
device_name   = "text"
[advice]
missing = "needs measurements of the link; {link}"
*/
CREATE TABLE link_sample (
    trace_id          VARCHAR NOT NULL, -- the trace
    sample_id         BIGINT NOT NULL,  -- number, unique in the trace
    kind              VARCHAR,          -- all_reduce, all_gather, …; NULL when unknown
    kind_evidence     VARCHAR,          -- origin of the kind: program name, columns and bus
                                        -- bandwidth, file name
    ranks             BIGINT,           -- ranks of the test; NULL when unknown
    nodes             BIGINT,           -- hosts of the ranks; NULL when unknown
    device_name       VARCHAR,          -- GPU model; NULL when unknown, or if models differ
    placement         VARCHAR,          -- out-of-place, in-place; NULL when unknown
    bytes             BIGINT NOT NULL,  -- message size as nccl-tests counts it
    elements          BIGINT,           -- elements
    dtype             VARCHAR,          -- type of the elements
    operation         VARCHAR,          -- reduction, such as sum; NULL for other collectives
    root              BIGINT,           -- root rank; NULL without one
    time_ns           BIGINT NOT NULL,  -- mean time of one collective
    algbw_bytes_per_s DOUBLE,           -- algorithm bandwidth as printed
    busbw_bytes_per_s DOUBLE,           -- bus bandwidth as printed
    errors            BIGINT            -- wrong values; NULL without validation
);
