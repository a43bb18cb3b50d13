/*
title  = "One operating-system process in the trace."
lookup = true
[privacy]
name = "text"
*/
CREATE TABLE process (
    trace_id   VARCHAR NOT NULL, -- the trace
    process_id BIGINT NOT NULL,  -- unique process key of the tool (nsys: serialized global pid;
                                 -- nvprof: pid)
    pid        BIGINT,           -- process id of the operating system; NULL when unknown
    name       VARCHAR           -- executable name; NULL when unknown
);
