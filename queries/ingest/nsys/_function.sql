-- Texts as names of API functions: worked out once for each text, not for each call.
SELECT id, value AS name, function_name(value) AS unversioned_name
FROM StringIds
