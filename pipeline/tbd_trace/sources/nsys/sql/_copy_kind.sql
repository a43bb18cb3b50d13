-- Copy direction by Nsight Systems' number. If the file contains its own enumeration, its numbers
-- replace the usual ones.
SELECT coalesce(listed.id, usual.id) AS id, usual.direction
FROM (
    VALUES
        (0, 'UNKNOWN', 'unknown'),
        (1, 'HTOD', 'HtoD'),
        (2, 'DTOH', 'DtoH'),
        (3, 'HTOA', 'HtoA'),
        (4, 'ATOH', 'AtoH'),
        (5, 'ATOA', 'AtoA'),
        (6, 'ATOD', 'AtoD'),
        (7, 'DTOA', 'DtoA'),
        (8, 'DTOD', 'DtoD'),
        (9, 'HTOH', 'HtoH'),
        (10, 'PTOP', 'PtoP'),
        (11, 'UVM_HTOD', 'unified HtoD'),
        (12, 'UVM_DTOH', 'unified DtoH'),
        (13, 'UVM_DTOD', 'unified DtoD')
) AS usual (id, name, direction)
LEFT JOIN ENUM_CUDA_MEMCPY_OPER AS listed ON listed.name = 'CUDA_MEMCPY_KIND_' || usual.name
WHERE listed.id IS NOT NULL OR NOT EXISTS (SELECT 1 FROM ENUM_CUDA_MEMCPY_OPER)
