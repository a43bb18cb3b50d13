/*
title         = "One memory copy on a GPU."
times         = ["start_ns", "end_ns"]
clock         = "gpu"
aligns_clocks = true
duplicates    = "drop"
[privacy]
direction = "fixed"
src_kind  = "fixed"
dst_kind  = "fixed"
[advice]
missing       = "needs GPU memory copies, and the trace has none"
timeline_only = true
without_kernels = "and only copies or fills were recorded; profile the part that computes"
*/
CREATE TABLE memcpy (
    trace_id       VARCHAR NOT NULL, -- the trace
    memcpy_id      BIGINT NOT NULL,  -- number of the copy, unique in the trace
    start_ns       BIGINT,           -- start, trace clock
    end_ns         BIGINT,           -- end, trace clock
    duration_ns    BIGINT,           -- end - start, or the duration given by the tool
    process_id     BIGINT,           -- key of the process
    device_id      INTEGER,          -- device
    context_id     BIGINT,           -- CUDA context
    stream_id      BIGINT,           -- CUDA stream
    correlation_id BIGINT,           -- joins (with process_id) to api_call
    bytes          BIGINT,           -- bytes copied
    direction      VARCHAR,          -- HtoD, DtoH, DtoD, HtoH, PtoP, AtoH, HtoA, AtoD, DtoA, AtoA,
                                     -- unified HtoD, unified DtoH, unified DtoD, unknown
    src_kind       VARCHAR,          -- pageable, pinned, device, array, managed, device static,
                                     -- managed static, unknown
    dst_kind       VARCHAR,          -- as src_kind
    src_device_id  INTEGER,          -- device copied from (peer copies)
    dst_device_id  INTEGER,          -- device copied to (peer copies)
    graph_node_id  BIGINT            -- CUDA graph node; NULL outside graphs
);
