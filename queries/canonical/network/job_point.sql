/*
title = "One measured point of a job: its ranks, the link between them, and the iterations."
[privacy]
scheme = "fixed"
[advice]
missing = """needs measured iterations of several ranks; collect them with
`tbd-trace collect --ranks N --bandwidth RATES`"""
*/
CREATE TABLE job_point (
    trace_id            VARCHAR NOT NULL, -- the trace
    point_id            BIGINT NOT NULL,  -- number in job.json, from 0
    is_own              BOOLEAN NOT NULL, -- true if the trace is a rank of this point
    scheme              VARCHAR,          -- exchange of gradients: ddp, ps, p3, …; NULL when
                                          -- unknown
    world_size          BIGINT NOT NULL,  -- ranks
    bandwidth_bits_per_s DOUBLE,          -- limit of the link of each rank; NULL without one
    latency_added_s     DOUBLE,           -- delay added to each packet; NULL without a limit
    iterations          BIGINT NOT NULL,  -- measured iterations, each the longest over the ranks
    median_s            DOUBLE,           -- median of them; NULL without any
    quietest_s          DOUBLE,           -- shortest of them
    is_stable           BOOLEAN,          -- true if they vary by at most 5 %
    all_reduce_s        DOUBLE,           -- median time of the smallest all-reduce before the job;
                                          -- NULL without a benchmark of the link
    busbw_bytes_per_s   DOUBLE,           -- bus bandwidth of the largest one
    host_bytes_per_s    DOUBLE            -- bytes ÷ median time of the largest one without a limit
);
