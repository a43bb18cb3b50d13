-- Enumeration CUpti_ActivityMemcpyKind.
SELECT * FROM (VALUES
    (1, 'HtoD'), (2, 'DtoH'), (3, 'HtoA'), (4, 'AtoH'), (5, 'AtoA'),
    (6, 'AtoD'), (7, 'DtoA'), (8, 'DtoD'), (9, 'HtoH'), (10, 'PtoP')
) AS kinds (code, direction)
