/*
title  = "One thread that called a CUDA or NVTX function."
lookup = true
[privacy]
name = "text"
*/
CREATE TABLE thread (
    trace_id   VARCHAR NOT NULL, -- the trace
    process_id BIGINT,           -- key of the process
    thread_id  BIGINT NOT NULL,  -- unique thread key of the tool (nsys: serialized global tid;
                                 -- nvprof: thread id as unsigned int32)
    tid        BIGINT,           -- operating-system thread id
    name       VARCHAR           -- thread name; NULL when unknown
);
