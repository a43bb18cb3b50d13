-- NVTX marks.
SELECT
    *,
    CASE
        WHEN is_no_time(timestamp_ns, $middle)
            THEN 'NVTX marks with times that cannot be: {}; left out'
    END AS fault,
    fault IS NULL AS kept
FROM nvtx_mark
