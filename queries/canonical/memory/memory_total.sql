/*
title = """Live bytes that a source states at one position: the end state of a snapshot, the bytes
    before a recording, totals beside events."""
[privacy]
allocator   = "fixed"
memory_kind = "fixed"
*/
CREATE TABLE memory_total (
    trace_id        VARCHAR NOT NULL, -- the trace
    process_id      BIGINT,           -- key of the process; NULL when unknown
    device_id       INTEGER,          -- device; NULL for host memory
    allocator       VARCHAR,          -- as memory_event.allocator
    memory_kind     VARCHAR,          -- as memory_event.memory_kind
    sequence        BIGINT,           -- event after which the totals hold; -1 before the first
                                      -- event, NULL at the end of the recording
    requested_bytes BIGINT,           -- live bytes as requested; NULL when unknown
    allocated_bytes BIGINT,           -- live bytes after rounding; NULL when unknown
    reserved_bytes  BIGINT            -- bytes that the allocator holds; NULL when unknown
);
