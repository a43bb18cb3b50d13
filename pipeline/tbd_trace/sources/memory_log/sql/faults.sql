-- The first event that cannot be right, with its number from 1; no row for a valid log.
WITH checked AS (
    SELECT sequence + 1 AS event, action, address, bytes, class, stream, used, total,
        lag(action) OVER (
            PARTITION BY address, action NOT IN ('alloc', 'free') ORDER BY sequence
        ) AS before
    FROM memory_log
)
SELECT event,
    CASE
        WHEN action IS NULL OR action NOT IN ('alloc', 'free', 'free_requested', 'classify',
            'device')
            THEN format('unknown action {}', coalesce(action, 'null'))
        WHEN action = 'device' THEN
            if(used < 0 OR total < used, format('{} of {} bytes in use', used, total), NULL)
        WHEN address IS NULL THEN 'it has no address'
        WHEN action <> 'classify' AND bytes IS NULL THEN 'it has no bytes'
        WHEN bytes < 0 THEN format('{} bytes', bytes)
        WHEN action = 'alloc' AND before = 'alloc' THEN format(
            'address {}{} is allocated twice (a free is missing)',
            address, coalesce(' of stream ' || stream, '')
        )
        WHEN NOT class IN (
            'weight', 'weight_gradient', 'feature_map', 'activation_gradient', 'workspace',
            'temporary', 'optimizer_state', 'optimizer_temporary', 'buffer', 'input',
            'communication', 'unknown'
        ) THEN format('unknown class {}', class)
    END AS fault
FROM checked
WHERE fault IS NOT NULL
ORDER BY event
LIMIT 1
