-- Waits for CUDA events. They are recorded if `enable_cuda_sync_events` of the experimental
-- configuration of torch.profiler is set.
SELECT
    event_id AS synchronization_id,
    a.wait_on_stream AS event_stream_id,
    a.wait_on_cuda_event_record_corr_id AS record_correlation_id
FROM (
    SELECT *, json_transform(args, '{
        "wait_on_stream": "BIGINT", "wait_on_cuda_event_record_corr_id": "BIGINT"}') AS a
    FROM event WHERE kind = 'synchronization'
)
WHERE a.wait_on_cuda_event_record_corr_id > 0
