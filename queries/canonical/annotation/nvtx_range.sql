-- One NVTX range. Parent, depth and path are derived (queries/derive/annotations/annotation_tree.sql).
CREATE TABLE nvtx_range (
    trace_id          VARCHAR NOT NULL, -- the trace
    nvtx_range_id     BIGINT NOT NULL,  -- number, unique in the trace, in the order of the file
    start_ns          BIGINT NOT NULL,  -- start, trace clock
    end_ns            BIGINT NOT NULL,  -- end; the trace's end for a range that was left open
    is_open           BOOLEAN NOT NULL, -- the range was never closed
    kind              VARCHAR NOT NULL, -- push_pop (nested on one thread) or start_end (may cross threads)
    process_id        BIGINT,           -- key of the process
    thread_id         BIGINT,           -- thread that opened it
    end_thread_id     BIGINT,           -- thread that closed it
    domain_id         BIGINT NOT NULL,  -- NVTX domain number; 0 is the default domain
    domain            VARCHAR,          -- NVTX domain name; NULL for the default domain
    text              VARCHAR,          -- message
    payload           DOUBLE            -- numeric payload, if one was given
);
