-- What kernels and API functions are called, and functions without their version: worked out once for
-- each text, not for each call. 'unknown' is among them for those that nothing names.
SELECT id, value AS name, function_name(value) AS unversioned
FROM StringIds
UNION ALL
SELECT NULL, 'unknown', 'unknown'
