-- GPUs that a CUDA device number may mean. rank, best evidence first:
--   1 numbering of one process (TARGET_INFO_CUDA_DEVICE)
--   2 numbering of one process in exports of 2020 (TARGET_INFO_CUDA_GPU)
--   3 CUDA number in the list of GPUs, which is the numbering of an unknown process
--   4 no numbers in the file: any GPU of the list
SELECT
    1 AS rank,
    d.cudaId AS device_id,
    g.* REPLACE (
        d.pid AS pid,
        coalesce(d.gpuId, g.gpu_id) AS gpu_id,
        coalesce(nullif(d.uuid, ''), g.uuid) AS uuid,
        -- A MIG slice of a GPU has fewer multiprocessors than the GPU.
        coalesce(known(d.numMultiprocessors), g.sm_count) AS sm_count
    )
FROM TARGET_INFO_CUDA_DEVICE AS d
LEFT JOIN _gpu AS g ON g.gpu_id = d.gpuId OR (d.gpuId IS NULL AND g.uuid = d.uuid)
UNION ALL BY NAME
SELECT CASE WHEN pid IS NULL THEN 3 ELSE 2 END AS rank, cuda_device AS device_id, *
FROM _gpu
WHERE cuda_device IS NOT NULL
UNION ALL BY NAME
SELECT 4 AS rank, number.device_id, g.*
FROM _gpu AS g
CROSS JOIN (SELECT unnest(range(count(*))) AS device_id FROM _gpu) AS number
WHERE NOT EXISTS (SELECT 1 FROM _gpu WHERE cuda_device IS NOT NULL)
