-- API calls. A call that ends before it starts becomes an instant: it is still the launch of the
-- operations with its correlation id.
SELECT
    * REPLACE (greatest(start_ns, end_ns) AS end_ns),
    CASE
        WHEN is_no_time(start_ns, $middle) OR is_no_time(end_ns, $middle)
            THEN 'API calls with implausible times: {}; removed'
        WHEN end_ns < start_ns
            THEN 'API calls that end before they start: {}; each becomes an instant'
    END AS fault,
    NOT (is_no_time(start_ns, $middle) OR is_no_time(end_ns, $middle)) AS kept
FROM api_call
