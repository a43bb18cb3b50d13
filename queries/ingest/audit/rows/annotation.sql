-- NVTX ranges and marks. A range that ends before it starts becomes an instant. An open range ends
-- with the trace; if that end is implausible, with the latest other range.
WITH latest AS (
    SELECT max(end_ns) AS latest_ns
    FROM annotation
    WHERE kind <> 'mark' AND NOT is_no_time(end_ns, $middle)
),

evaluated AS (
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
        WHEN has_no_time AND kind = 'mark' THEN 'NVTX marks with implausible times: {}; removed'
        WHEN has_no_time THEN 'NVTX ranges with implausible times: {}; removed'
        WHEN has_no_end
            THEN 'open NVTX ranges in a trace with an implausible end: {}; they end with the '
                || 'latest other range'
        WHEN end_ns < start_ns
            THEN 'NVTX ranges that end before they start: {}; each becomes an instant'
    END AS fault,
    NOT has_no_time AS kept
FROM evaluated
