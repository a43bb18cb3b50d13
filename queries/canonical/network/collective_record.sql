/*
title = "One collective operation as PyTorch describes it: group, elements and type."
times = ["start_ns", "end_ns"]
[privacy]
source      = "fixed"
kind        = "text"
group_name  = "text"
group_ranks = "fixed"
dtype       = "fixed"
[advice]
missing = """needs collectives described by PyTorch; record them with
`torch.profiler.profile(record_shapes=True)`"""
*/
CREATE TABLE collective_record (
    trace_id        VARCHAR NOT NULL, -- the trace
    record_id       BIGINT NOT NULL,  -- number, unique in the trace
    source          VARCHAR NOT NULL, -- kernel (arguments of a NCCL or RCCL kernel), operator
                                      -- (record_param_comms), gloo (range on a host thread) or
                                      -- bucket (range `all_reduce, bytes = N, bucket = K`)
    kind            VARCHAR,          -- collective as PyTorch writes it, such as allreduce; NULL
                                      -- when unknown
    start_ns        BIGINT NOT NULL,  -- start, trace clock; of a kernel on the GPU
    end_ns          BIGINT NOT NULL,  -- end, trace clock
    process_id      BIGINT,           -- key of the process
    thread_id       BIGINT,           -- thread; NULL for a kernel
    kernel_id       BIGINT,           -- the kernel; NULL for other sources
    group_name      VARCHAR,          -- process group; NULL when unknown
    group_ranks     VARCHAR,          -- ranks of the group as PyTorch lists them
    group_size      BIGINT,           -- ranks in the group
    sequence        BIGINT,           -- number of the collective in its group; NULL when unknown
    input_elements  BIGINT,           -- elements of the input on this rank
    output_elements BIGINT,           -- elements of the output on this rank
    dtype           VARCHAR,          -- type of the elements
    bytes           BIGINT,           -- bytes in the text of a bucket's range; NULL for others
    bucket          BIGINT            -- number of the bucket of gradients; NULL for others
);
