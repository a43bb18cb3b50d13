/*
title        = "One event of an allocator, in the order of the file."
times        = ["timestamp_ns"]
bounds_trace = false
size         = "long"
[privacy]
operation   = "fixed"
memory_kind = "fixed"
allocator   = "fixed"
class       = "fixed"
phase       = "fixed"
dtype       = "fixed"
shape       = "fixed"
pool        = "fixed"
layer       = "text"
operator    = "text"
name        = "text"
[advice]
missing = "needs memory events; {memory}"
*/
CREATE TABLE memory_event (
    trace_id        VARCHAR NOT NULL, -- the trace
    sequence        BIGINT NOT NULL,  -- position among the events of the file (of a snapshot of
                                      -- PyTorch: of the device), from 0
    timestamp_ns    BIGINT,           -- time, trace clock; NULL if the file has no times
    process_id      BIGINT,           -- key of the process; NULL when unknown
    device_id       INTEGER,          -- device; NULL for host memory
    context_id      BIGINT,           -- CUDA context
    stream_id       BIGINT,           -- CUDA stream
    correlation_id  BIGINT,           -- joins (with process_id) to api_call
    operation       VARCHAR,          -- allocate, free, free_requested (the program released it, a
                                      -- stream still uses it), classify (states the class of a
                                      -- live allocation), segment_allocate, segment_free,
                                      -- segment_map, segment_unmap (memory that the allocator
                                      -- takes from the driver), snapshot, out_of_memory
    allocator       VARCHAR,          -- cuda (driver), torch, tf_bfc, mxnet, xla, none
    memory_kind     VARCHAR,          -- as memcpy.src_kind
    address         UBIGINT,          -- virtual address, or another key that is unique among live
                                      -- allocations
    bytes           BIGINT,           -- size as recorded
    requested_bytes BIGINT,           -- size that the program asked for; NULL when unknown
    allocated_bytes BIGINT,           -- size after rounding by the allocator; NULL when unknown
    pool            VARCHAR,          -- pool of the allocator; NULL when unknown
    stack_id        BIGINT,           -- call stack in memory_stack; NULL without one
    operator        VARCHAR,          -- operator of the framework
    class           VARCHAR,          -- class of the bytes as stated by the source, see allocation;
                                      -- NULL if it states none
    layer           VARCHAR,          -- layer as stated by the source
    phase           VARCHAR,          -- setup, forward, backward, recompute, optimizer, other; as
                                      -- stated by the source
    iteration       INTEGER,          -- recorded iteration, from 0, as stated by the source
    dtype           VARCHAR,          -- data type of the tensor
    shape           VARCHAR,          -- shape of the tensor, as 8x3x224x224
    name            VARCHAR           -- variable or tensor; NULL when unknown
);
