-- Notes about devices whose GPU the file does not identify.
WITH used AS (
    SELECT
        u.device_id,
        n.rank,
        count(DISTINCT n.gpu_id) AS gpus,
        count(DISTINCT n.name) AS models,
        string_agg(DISTINCT n.name, ', ' ORDER BY n.name) AS names
    FROM _device_use AS u
    LEFT JOIN
        _device_numbering AS n
        ON
            n.device_id = u.device_id
            AND (n.pid IS NULL OR u.process_id IS NULL OR n.pid = process_number(u.process_id))
    GROUP BY u.process_id, u.device_id, n.rank
    QUALIFY n.rank IS NOT DISTINCT FROM min(n.rank) OVER (PARTITION BY u.process_id, u.device_id)
)

SELECT DISTINCT
    CASE
        WHEN rank IS NULL AND NOT EXISTS (SELECT 1 FROM _gpu)
            THEN 'the file describes no GPU: the properties of the devices are unknown'
        WHEN rank IS NULL
            THEN
                'device ' || device_id
                || ' is not among the GPUs described in the file: its properties are unknown'
        WHEN models > 1
            THEN
                'device ' || device_id || ' is one of several GPUs, the file does not show which ('
                || names || '): its properties are unknown'
        ELSE
            'device ' || device_id || ' is one of ' || gpus || ' equal GPUs (' || names
            || '), the file does not show which'
    END AS note
FROM used
WHERE rank IS NULL OR gpus > 1
ORDER BY note
