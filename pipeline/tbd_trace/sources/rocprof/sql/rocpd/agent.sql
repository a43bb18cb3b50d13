-- Agents: GPUs and CPUs. GPUs are numbered by `type_index`, from 0.
SELECT
    part,
    id AS agent_id,
    type = 'GPU' AS is_gpu,
    coalesce(
        type_index, row_number() OVER (PARTITION BY part, type ORDER BY absolute_index, id) - 1)
        AS device_id,
    coalesce(nullif(product_name, ''), nullif(model_name, ''), nullif(name, '')) AS name,
    CASE WHEN json_valid(extdata) THEN extdata END AS properties
FROM raw_info_agent
