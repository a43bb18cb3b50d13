-- Measurements of nccl-tests.
WITH evaluated AS (
    SELECT *,
        is_no_size(bytes) OR is_no_size(elements) OR is_no_duration(time_ns)
            OR is_no_rank_count(ranks) OR is_no_rank_count(nodes) AS is_no_sample,
        algbw_bytes_per_s < 0 OR busbw_bytes_per_s < 0 OR NOT isfinite(algbw_bytes_per_s)
            OR NOT isfinite(busbw_bytes_per_s) AS has_no_rate
    FROM link_sample
)

SELECT
    * EXCLUDE (is_no_sample, has_no_rate) REPLACE (
        if(has_no_rate, NULL, algbw_bytes_per_s) AS algbw_bytes_per_s,
        if(has_no_rate, NULL, busbw_bytes_per_s) AS busbw_bytes_per_s
    ),
    CASE
        WHEN is_no_sample THEN 'implausible measurements of a link: {}; removed'
        WHEN has_no_rate THEN 'measurements of a link with an implausible rate: {}; it is NULL'
    END AS fault,
    is_no_sample IS NOT TRUE AS kept
FROM evaluated
