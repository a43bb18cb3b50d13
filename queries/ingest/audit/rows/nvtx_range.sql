-- NVTX ranges. One that ends before it starts counts as an instant. One that was left open ends with
-- the trace: with the latest end of another range if the reader found a time that cannot be.
WITH latest AS (
    SELECT max(end_ns) AS end_ns
    FROM nvtx_range
    WHERE NOT is_no_time(end_ns, $middle)
),

ended AS (
    SELECT r.* REPLACE (
        if(r.is_open AND is_no_time(r.end_ns, $middle), coalesce(l.end_ns, r.start_ns), r.end_ns)
            AS end_ns
    )
    FROM nvtx_range AS r
    CROSS JOIN latest AS l
)

SELECT
    * REPLACE (greatest(start_ns, end_ns) AS end_ns),
    CASE
        WHEN is_no_time(start_ns, $middle) OR is_no_time(end_ns, $middle)
            THEN 'NVTX ranges with times that cannot be: {}; left out'
        WHEN end_ns < start_ns
            THEN 'NVTX ranges that end before they start: {}; each counts as an instant'
    END AS fault,
    NOT (is_no_time(start_ns, $middle) OR is_no_time(end_ns, $middle)) AS kept
FROM ended
