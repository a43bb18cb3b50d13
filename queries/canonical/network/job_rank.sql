/*
title = "The rank of a trace in a distributed job."
[privacy]
backend  = "fixed"
evidence = "fixed"
job      = "text"
host     = "text"
[advice]
missing = """needs traces of ranks; ingest them together with
`tbd-trace ingest --job NAME DIRECTORY`"""
*/
CREATE TABLE job_rank (
    trace_id   VARCHAR NOT NULL, -- the trace
    job        VARCHAR,          -- name given to `ingest --job`; NULL for a trace ingested alone
    rank       BIGINT,           -- rank of the process in the job; NULL when unknown
    world_size BIGINT,           -- ranks of the job; NULL when unknown
    backend    VARCHAR,          -- library of the collectives: nccl, gloo, mpi; NULL when unknown
    host       VARCHAR,          -- name of the host; NULL when unknown
    evidence   VARCHAR           -- origin of the rank: distributedInfo, file name
);
