-- Copies. Implausible values become NULL; the row stays.
WITH evaluated AS (
    SELECT *,
        is_no_time(start_ns, $middle) OR is_no_time(end_ns, $middle) AS has_no_time,
        end_ns < start_ns AS is_reversed,
        is_no_duration(duration_ns) AS has_no_duration,
        is_no_size(bytes) AS has_no_size
    FROM memcpy
)

SELECT
    * EXCLUDE (has_no_time, is_reversed, has_no_duration, has_no_size) REPLACE (
        if(has_no_time, NULL, start_ns) AS start_ns,
        if(has_no_time, NULL, end_ns) AS end_ns,
        if(has_no_time OR is_reversed OR has_no_duration, NULL, duration_ns) AS duration_ns,
        if(has_no_size, NULL, bytes) AS bytes
    ),
    CASE
        WHEN has_no_time THEN 'memory copies with implausible times: {}; their times are NULL'
        WHEN is_reversed THEN 'memory copies that end before they start: {}; their duration is NULL'
        WHEN has_no_duration THEN 'memory copies with an implausible duration: {}; it is NULL'
        WHEN has_no_size THEN 'memory copies with an implausible size: {}; it is NULL'
    END AS fault,
    true AS kept
FROM evaluated
