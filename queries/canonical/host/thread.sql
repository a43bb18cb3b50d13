-- One thread that called a CUDA or NVTX function.
CREATE TABLE thread (
    trace_id          VARCHAR NOT NULL, -- the trace
    process_id        BIGINT,           -- key of the process
    thread_id         BIGINT NOT NULL,  -- the tool's unique thread key (nsys: serialised global tid; nvprof: thread id as unsigned int32)
    tid               BIGINT,           -- operating-system thread id
    name              VARCHAR           -- thread name; NULL when the file does not say
);
