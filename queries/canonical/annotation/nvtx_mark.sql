-- One NVTX mark: an instant with a text.
CREATE TABLE nvtx_mark (
    trace_id          VARCHAR NOT NULL, -- the trace
    timestamp_ns      BIGINT NOT NULL,  -- when, trace clock
    process_id        BIGINT,           -- key of the process
    thread_id         BIGINT,           -- thread that set it
    domain_id         BIGINT NOT NULL,  -- NVTX domain number; 0 is the default domain
    domain            VARCHAR,          -- NVTX domain name; NULL for the default domain
    text              VARCHAR           -- message
);
