/*
title        = """
One range or mark made on a host thread by the program, its framework or the profiler.
Parent, depth and path are derived (queries/derive/annotations/annotation_tree.sql)."""
times        = ["start_ns", "end_ns"]
size         = "long"
parallel     = true
audit        = "times"
[privacy]
source = "fixed"
kind   = "fixed"
domain = "text"
text   = "text"
[advice]
missing = "needs operators or ranges, and the trace has none; {operators}"
without_gpu = """
without a GPU, `tbd-trace why` answers if ranges mark the steps, or PyTorch records operators"""
[timeline]
row_kind  = "CASE kind WHEN 'start_end' THEN 'range' ELSE 'nvtx' END"
thread_id = "CASE WHEN kind <> 'start_end' THEN thread_id END"
lane      = "CASE source WHEN 'frame' THEN 'Python' ELSE 'NVTX' || coalesce(' ' || domain, '') END"
end_ns    = "CASE WHEN kind <> 'mark' THEN end_ns END"
category  = "CASE source WHEN 'frame' THEN 'python' ELSE 'nvtx' END"
name      = "coalesce(text, '')"
*/
CREATE TABLE annotation (
    trace_id      VARCHAR NOT NULL, -- the trace
    annotation_id BIGINT NOT NULL,  -- number, unique in the trace, in the order of the file
    source        VARCHAR NOT NULL, -- origin: nvtx (also ROCTX and RCCL); of PyTorch operator,
                                    -- module (a call of it), python (record_function) and frame
                                    -- (another call of Python, stored on request); profiler (its
                                    -- overhead)
    kind          VARCHAR NOT NULL, -- push_pop (nested on a thread), start_end, mark (instant)
    start_ns      BIGINT NOT NULL,  -- start, trace clock; time of a mark
    end_ns        BIGINT NOT NULL,  -- end, trace clock; for an open range, end of the trace
    is_open       BOOLEAN NOT NULL, -- true if the range was never closed
    process_id    BIGINT,           -- key of the process
    thread_id     BIGINT,           -- thread that opened the range
    end_thread_id BIGINT,           -- thread that closed the range
    domain_id     BIGINT NOT NULL,  -- NVTX domain, 0 the default; -1 operator and module, which
                                    -- nest; -2 profiler; -3 frame
    domain        VARCHAR,          -- NVTX domain name; NULL for the default and other sources
    text          VARCHAR,          -- message
    payload       DOUBLE            -- numeric payload; NULL without one
);
