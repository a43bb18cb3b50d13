/*
title         = """
One execution of a CUDA graph traced as a whole; such a trace does not contain the kernels of the
graph."""
times         = ["start_ns", "end_ns"]
clock         = "gpu"
aligns_clocks = true
duplicates    = "drop"
[advice]
missing = "needs graphs traced as a whole, and the trace has none; {whole_graphs}"
without_kernels = "and graphs were traced as a whole; {graphs}"
*/
CREATE TABLE graph_launch (
    trace_id        VARCHAR NOT NULL, -- the trace
    graph_launch_id BIGINT NOT NULL,  -- number, unique in the trace
    start_ns        BIGINT NOT NULL,  -- start of the first node, trace clock
    end_ns          BIGINT NOT NULL,  -- end of the last node, trace clock
    duration_ns     BIGINT NOT NULL,  -- end - start
    process_id      BIGINT,           -- key of the process
    device_id       INTEGER,          -- device
    context_id      BIGINT,           -- CUDA context
    stream_id       BIGINT,           -- CUDA stream
    correlation_id  BIGINT,           -- joins (with process_id) to api_call
    graph_id        BIGINT,           -- CUDA graph
    graph_exec_id   BIGINT            -- instantiated graph
);
