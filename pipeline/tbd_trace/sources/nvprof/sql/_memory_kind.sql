-- Enumeration CUpti_ActivityMemoryKind.
SELECT * FROM (VALUES
    (0, 'unknown'), (1, 'pageable'), (2, 'pinned'), (3, 'device'),
    (4, 'array'), (5, 'managed'), (6, 'device static'), (7, 'managed static')
) AS kinds (code, memory_kind)
