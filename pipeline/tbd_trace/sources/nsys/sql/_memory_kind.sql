-- Memory kind by Nsight Systems' number. If the file contains its own enumeration, its numbers
-- replace the usual ones.
SELECT coalesce(listed.id, usual.id) AS id, usual.kind
FROM (
    VALUES
        (0, 'PAGEABLE', 'pageable'),
        (1, 'PINNED', 'pinned'),
        (2, 'DEVICE', 'device'),
        (3, 'ARRAY', 'array'),
        (4, 'MANAGED', 'managed'),
        (5, 'DEVICE_STATIC', 'device static'),
        (6, 'MANAGED_STATIC', 'managed static'),
        (7, 'UNKNOWN', 'unknown')
) AS usual (id, name, kind)
LEFT JOIN ENUM_CUDA_MEM_KIND AS listed ON listed.name = 'CUDA_MEMOPR_MEMORY_KIND_' || usual.name
WHERE listed.id IS NOT NULL OR NOT EXISTS (SELECT 1 FROM ENUM_CUDA_MEM_KIND)
