/*
title = "One segment that an allocator holds when its snapshot is taken."
[privacy]
allocator    = "fixed"
segment_type = "fixed"
pool         = "fixed"
[advice]
missing = "needs a memory snapshot; write one with `torch.cuda.memory._dump_snapshot(FILE)`"
*/
CREATE TABLE memory_segment (
    trace_id        VARCHAR NOT NULL, -- the trace
    process_id      BIGINT,           -- key of the process; NULL when unknown
    device_id       INTEGER,          -- device
    stream_id       BIGINT,           -- stream that the segment belongs to
    allocator       VARCHAR,          -- as memory_event.allocator
    address         UBIGINT,          -- first address
    total_bytes     BIGINT,           -- size
    allocated_bytes BIGINT,           -- bytes in blocks that the program holds
    active_bytes    BIGINT,           -- the same plus blocks that a stream still uses
    requested_bytes BIGINT,           -- bytes that the program asked for; NULL when unknown
    segment_type    VARCHAR,          -- small (blocks up to 1 MiB) or large
    pool            VARCHAR,          -- id of the memory pool; 0,0 is the default pool
    is_expandable   BOOLEAN           -- true for an expandable segment; NULL when unknown
);
