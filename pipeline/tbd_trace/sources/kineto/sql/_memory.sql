-- Allocations and releases by PyTorch's allocators, in the order of their times.
SELECT
    row_number() OVER (ORDER BY start_ns, event_id) - 1 AS sequence,
    start_ns AS timestamp_ns,
    host_process(pid) AS process_id,
    a."Device Type" = 0 AS is_host,
    a."Device Id" AS device_id,
    a.Addr AS address,
    a.Bytes AS bytes,
    a."Total Allocated" AS total_allocated,
    a."Total Reserved" AS total_reserved
FROM (
    SELECT *, json_transform(args, '{
        "Addr": "UBIGINT", "Bytes": "BIGINT", "Device Id": "BIGINT", "Device Type": "BIGINT",
        "Total Allocated": "BIGINT", "Total Reserved": "BIGINT"}') AS a
    FROM event WHERE kind = 'memory'
)
WHERE a.Bytes IS NOT NULL
