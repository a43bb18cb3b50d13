-- Names of API functions without version, where they have one: worked out once for each text, not for
-- each call.
SELECT id, function_name(value) AS name
FROM StringIds
WHERE function_name(value) <> value
