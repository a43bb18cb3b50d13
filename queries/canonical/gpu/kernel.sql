/*
title         = "One kernel execution on a GPU."
times         = ["start_ns", "end_ns"]
size          = "long"
clock         = "gpu"
aligns_clocks = true
duplicates    = "drop"
[privacy]
name         = "code"
short_name   = "code"
mangled_name = "code"
[advice]
missing  = "needs single kernels; {timeline}"
gpu_work = "single kernels"
*/
CREATE TABLE kernel (
    trace_id               VARCHAR NOT NULL, -- the trace
    kernel_id              BIGINT NOT NULL,  -- number of the kernel, unique in the trace
    start_ns               BIGINT,           -- start, trace clock; NULL without a timeline (ncu
                                             -- CSV, nvprof metrics CSV) and for implausible times
    end_ns                 BIGINT,           -- end, trace clock
    duration_ns            BIGINT,           -- end - start, or the duration given by the tool; NULL
                                             -- when unknown
    process_id             BIGINT,           -- key of the process; NULL when unknown
    device_id              INTEGER,          -- device, numbered as in device.device_id
    context_id             BIGINT,           -- CUDA context
    stream_id              BIGINT,           -- CUDA stream
    correlation_id         BIGINT,           -- joins (with process_id) to api_call; repeats across
                                             -- processes and graph nodes
    name                   VARCHAR NOT NULL, -- demangled name with template arguments, as printed
                                             -- by the tool (nsys: demangledName)
    short_name             VARCHAR,          -- base name without templates, namespaces and
                                             -- arguments
    mangled_name           VARCHAR,          -- C++ mangled name
    grid_x                 BIGINT,           -- grid size in blocks
    grid_y                 BIGINT,           -- grid size in blocks
    grid_z                 BIGINT,           -- grid size in blocks
    block_x                BIGINT,           -- block size in threads
    block_y                BIGINT,           -- block size in threads
    block_z                BIGINT,           -- block size in threads
    registers_per_thread   INTEGER,          -- 32-bit registers
    static_shared_bytes    BIGINT,           -- static shared memory per block
    dynamic_shared_bytes   BIGINT,           -- dynamic shared memory per block; with the static one
                                             -- if the tool records the sum (torch)
    shared_executed_bytes  BIGINT,           -- shared-memory carve-out set by the driver
    local_bytes_per_thread BIGINT,           -- local memory per thread
    graph_id               BIGINT,           -- CUDA graph of the kernel; NULL outside graphs
    graph_node_id          BIGINT            -- node in that graph; NULL outside graphs
);
