-- Synchronisations. One without a time tells nothing; one that ends before it starts is an instant.
SELECT
    * REPLACE (greatest(start_ns, end_ns) AS end_ns),
    CASE
        WHEN is_no_time(start_ns, $middle) OR is_no_time(end_ns, $middle)
            THEN 'synchronisations with times that cannot be: {}; left out'
        WHEN end_ns < start_ns
            THEN 'synchronisations that end before they start: {}; each counts as an instant'
    END AS fault,
    NOT (is_no_time(start_ns, $middle) OR is_no_time(end_ns, $middle)) AS kept
FROM synchronization
