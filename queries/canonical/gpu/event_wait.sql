/*
title = "One wait for a CUDA event whose record is known."
*/
CREATE TABLE event_wait (
    trace_id              VARCHAR NOT NULL, -- the trace
    synchronization_id    BIGINT NOT NULL,  -- the wait, in synchronization
    event_stream_id       BIGINT,           -- CUDA stream on which the event was recorded
    record_correlation_id BIGINT NOT NULL   -- joins (with the process of the wait) to the api_call
                                            -- that recorded the event
);
