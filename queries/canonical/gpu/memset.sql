/*
title         = "One memory fill on a GPU."
times         = ["start_ns", "end_ns"]
clock         = "gpu"
aligns_clocks = true
duplicates    = "drop"
[privacy]
memory_kind = "fixed"
[advice]
missing       = "needs GPU memory fills, and the trace has none"
timeline_only = true
without_kernels = "and only copies or fills were recorded; profile the part that computes"
*/
CREATE TABLE memset (
    trace_id       VARCHAR NOT NULL, -- the trace
    memset_id      BIGINT NOT NULL,  -- number of the fill, unique in the trace
    start_ns       BIGINT,           -- start, trace clock
    end_ns         BIGINT,           -- end, trace clock
    duration_ns    BIGINT,           -- end - start, or the duration given by the tool
    process_id     BIGINT,           -- key of the process
    device_id      INTEGER,          -- device
    context_id     BIGINT,           -- CUDA context
    stream_id      BIGINT,           -- CUDA stream
    correlation_id BIGINT,           -- joins (with process_id) to api_call
    bytes          BIGINT,           -- bytes filled
    memory_kind    VARCHAR,          -- as memcpy.src_kind
    graph_node_id  BIGINT            -- CUDA graph node; NULL outside graphs
);
