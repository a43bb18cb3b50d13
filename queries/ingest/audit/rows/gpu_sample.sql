-- GPU samples.
SELECT
    *,
    CASE
        WHEN is_no_time(timestamp_ns, $middle)
            THEN 'GPU samples with implausible times: {}; removed'
    END AS fault,
    fault IS NULL AS kept
FROM gpu_sample
