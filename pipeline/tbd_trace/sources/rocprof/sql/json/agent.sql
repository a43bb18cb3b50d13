-- Agents: CPUs (type 1) and GPUs (type 2), which are numbered from 0.
SELECT
    part,
    agent_id,
    kind = 2 AS is_gpu,
    coalesce(device_id, row_number() OVER (PARTITION BY part, kind ORDER BY node_id, number) - 1)
        AS device_id,
    nullif(name, '') AS name,
    properties
FROM json_agent
