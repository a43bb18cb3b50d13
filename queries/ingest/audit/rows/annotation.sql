-- NVTX ranges and marks. A range that ends before it starts counts as an instant. An open range ends
-- with the trace: if the reader took an impossible time for that, with the latest other range.
WITH latest AS (
    SELECT max(end_ns) AS latest_ns
    FROM annotation
    WHERE kind <> 'mark' AND NOT is_no_time(end_ns, $middle)
),

judged AS (
    SELECT r.*, l.latest_ns,
        is_no_time(r.start_ns, $middle) OR (is_no_time(r.end_ns, $middle) AND NOT r.is_open)
            AS has_no_time,
        is_no_time(r.end_ns, $middle) AND r.is_open AS has_no_end
    FROM annotation AS r
    CROSS JOIN latest AS l
)

SELECT
    * EXCLUDE (latest_ns, has_no_time, has_no_end) REPLACE (
        greatest(start_ns, if(has_no_end, latest_ns, end_ns)) AS end_ns
    ),
    CASE
        WHEN has_no_time AND kind = 'mark' THEN 'NVTX marks with times that cannot be: {}; left out'
        WHEN has_no_time THEN 'NVTX ranges with times that cannot be: {}; left out'
        WHEN has_no_end
            THEN 'NVTX ranges left open in a trace whose end cannot be: {}; they end with the '
                || 'latest other range'
        WHEN end_ns < start_ns
            THEN 'NVTX ranges that end before they start: {}; each counts as an instant'
    END AS fault,
    NOT has_no_time AS kept
FROM judged
