-- Collectives as PyTorch describes them. Without a time they are removed; implausible numbers
-- become NULL.
WITH evaluated AS (
    SELECT *,
        is_no_time(start_ns, $middle) OR is_no_time(end_ns, $middle) AS has_no_time,
        is_no_size(input_elements) OR is_no_size(output_elements) OR is_no_size(bytes)
            AS has_no_size,
        is_no_rank_count(group_size) AS has_no_group
    FROM collective_record
)

SELECT
    * EXCLUDE (has_no_time, has_no_size, has_no_group) REPLACE (
        greatest(start_ns, end_ns) AS end_ns,
        if(has_no_size, NULL, input_elements) AS input_elements,
        if(has_no_size, NULL, output_elements) AS output_elements,
        if(has_no_size, NULL, bytes) AS bytes,
        if(has_no_group, NULL, group_size) AS group_size
    ),
    CASE
        WHEN has_no_time THEN 'collectives with implausible times: {}; removed'
        WHEN end_ns < start_ns
            THEN 'collectives that end before they start: {}; each becomes an instant'
        WHEN has_no_size THEN 'collectives with an implausible size: {}; it is NULL'
        WHEN has_no_group THEN 'collectives with an implausible number of ranks: {}; it is NULL'
    END AS fault,
    NOT has_no_time AS kept
FROM evaluated
