-- CUDA graphs traced as a whole. One without a time tells nothing.
SELECT
    *,
    CASE
        WHEN is_no_time(start_ns, $middle) OR is_no_time(end_ns, $middle)
            THEN 'CUDA graph launches with times that cannot be: {}; left out'
        WHEN end_ns < start_ns THEN 'CUDA graph launches that end before they start: {}; left out'
    END AS fault,
    fault IS NULL AS kept
FROM graph_launch
