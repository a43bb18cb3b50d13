-- Samples of the CPUs.
SELECT
    *,
    CASE
        WHEN is_no_time(timestamp_ns, $middle)
            THEN 'samples of the CPUs with times that cannot be: {}; left out'
    END AS fault,
    fault IS NULL AS kept
FROM cpu_sample
