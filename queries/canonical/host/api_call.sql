/*
title         = """
One call of a CUDA runtime or driver, cuDNN, cuBLAS or operating-system function on a host
thread."""
times         = ["start_ns", "end_ns"]
size          = "long"
parallel      = true
aligns_clocks = true
duplicates    = "drop"
audit         = "times"
[privacy]
api  = "fixed"
name = "fixed"
[advice]
missing = "needs the calls that launch GPU work; {launches}"
nvprof  = """
needs the CUDA API calls, which this file lacks; ingest nvprof's database, or print them, too:
`nvprof --csv --print-gpu-trace --print-api-trace`"""
*/
CREATE TABLE api_call (
    trace_id       VARCHAR NOT NULL, -- the trace
    api_call_id    BIGINT NOT NULL,  -- number, unique in the trace
    start_ns       BIGINT NOT NULL,  -- start, trace clock
    end_ns         BIGINT NOT NULL,  -- end, trace clock
    process_id     BIGINT,           -- key of the process
    thread_id      BIGINT,           -- key of the thread
    correlation_id BIGINT,           -- joins (with process_id) to GPU operations of the call; NULL
                                     -- for APIs without GPU operations
    api            VARCHAR NOT NULL, -- cuda (runtime and driver, HIP and HSA), cudnn, cublas,
                                     -- osrt (operating-system runtime)
    name           VARCHAR NOT NULL  -- function name without its version suffix (_v7000)
);
