-- Synchronizations. Without a time they are removed; if they end before they start, they become
-- instants.
SELECT
    * REPLACE (greatest(start_ns, end_ns) AS end_ns),
    CASE
        WHEN is_no_time(start_ns, $middle) OR is_no_time(end_ns, $middle)
            THEN 'synchronizations with implausible times: {}; removed'
        WHEN end_ns < start_ns
            THEN 'synchronizations that end before they start: {}; each becomes an instant'
    END AS fault,
    NOT (is_no_time(start_ns, $middle) OR is_no_time(end_ns, $middle)) AS kept
FROM synchronization
