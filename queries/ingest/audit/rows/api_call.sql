-- API calls. One that ends before it starts still launched what has its correlation id: it counts as
-- an instant.
SELECT
    * REPLACE (greatest(start_ns, end_ns) AS end_ns),
    CASE
        WHEN is_no_time(start_ns, $middle) OR is_no_time(end_ns, $middle)
            THEN 'API calls with times that cannot be: {}; left out'
        WHEN end_ns < start_ns
            THEN 'API calls that end before they start: {}; each counts as an instant'
    END AS fault,
    NOT (is_no_time(start_ns, $middle) OR is_no_time(end_ns, $middle)) AS kept
FROM api_call
