/*
title  = """
One GPU, as described in the trace. Its peaks are derived
(queries/derive/counters/device_peak.sql)."""
lookup = true
[privacy]
name               = "fixed"
compute_capability = "fixed"
uuid               = "device"
[advice]
missing = "needs the GPU's description, which the file lacks; {description}"
*/
CREATE TABLE device (
    trace_id                         VARCHAR NOT NULL, -- the trace
    process_id                       BIGINT,           -- process whose numbering device_id follows;
                                                       -- NULL if it is valid for all processes
    device_id                        INTEGER NOT NULL, -- device number, as in kernel.device_id
    gpu_id                           INTEGER,          -- number of the physical GPU; processes with
                                                       -- the same gpu_id share it; NULL when
                                                       -- unknown
    name                             VARCHAR,          -- product name
    uuid                             VARCHAR,          -- GPU UUID
    compute_capability               VARCHAR,          -- such as 8.0
    sm_count                         INTEGER,          -- streaming multiprocessors
    clock_hz                         BIGINT,           -- maximum SM clock
    memory_bytes                     BIGINT,           -- device memory
    memory_bandwidth_bytes_per_s     BIGINT,           -- peak device-memory bandwidth
    l2_bytes                         BIGINT,           -- L2 cache
    max_threads_per_block            INTEGER,          -- limit per block
    max_warps_per_sm                 INTEGER,          -- limit per SM
    max_blocks_per_sm                INTEGER,          -- limit per SM
    max_registers_per_block          INTEGER,          -- 32-bit registers
    max_registers_per_sm             INTEGER,          -- 32-bit registers
    max_shared_bytes_per_block       BIGINT,           -- shared memory without opt-in
    max_shared_bytes_per_block_optin BIGINT,           -- shared memory with opt-in
    max_shared_bytes_per_sm          BIGINT            -- shared memory
);
