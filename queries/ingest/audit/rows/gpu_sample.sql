-- Samples of the GPU.
SELECT
    *,
    CASE
        WHEN is_no_time(timestamp_ns, $middle)
            THEN 'samples of the GPU with times that cannot be: {}; left out'
    END AS fault,
    fault IS NULL AS kept
FROM gpu_sample
