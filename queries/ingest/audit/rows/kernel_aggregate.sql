-- Totals of a profiler summary. 2^53 ns are 104 days of kernel time.
WITH evaluated AS (
    SELECT *, instances < 0 OR instances > 9007199254740992 OR total_ns < 0
        OR total_ns > 9007199254740992 OR min_ns < 0 OR max_ns > 9007199254740992 AS is_no_total
    FROM kernel_aggregate
)

SELECT
    * EXCLUDE (is_no_total),
    CASE WHEN is_no_total THEN 'implausible kernel totals: {}; removed' END AS fault,
    is_no_total IS NOT TRUE AS kept
FROM evaluated
