-- Blocks of segments. A block at an implausible distance from the start of its segment is removed.
WITH evaluated AS (
    SELECT *,
        is_no_size(bytes) OR is_no_size(address::HUGEINT - segment_address) AS is_no_block,
        is_no_size(requested_bytes) AS has_no_request
    FROM memory_block
)

SELECT
    * EXCLUDE (is_no_block, has_no_request) REPLACE (
        if(has_no_request, NULL, requested_bytes) AS requested_bytes
    ),
    CASE
        WHEN is_no_block THEN 'blocks with an implausible size or address: {}; removed'
        WHEN has_no_request THEN 'blocks with an implausible requested size: {}; it is NULL'
    END AS fault,
    is_no_block IS NOT TRUE AS kept
FROM evaluated
