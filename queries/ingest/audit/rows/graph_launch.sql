-- CUDA graphs traced as a whole. A launch without times has no other data of use, so it is removed.
SELECT
    *,
    CASE
        WHEN is_no_time(start_ns, $middle) OR is_no_time(end_ns, $middle)
            THEN 'CUDA graph launches with implausible times: {}; removed'
        WHEN end_ns < start_ns THEN 'CUDA graph launches that end before they start: {}; removed'
    END AS fault,
    fault IS NULL AS kept
FROM graph_launch
