-- Names of kernels and API functions, with and without version suffix. The suffix is removed once
-- per text, not once per call: files with millions of calls have few texts. 'unknown' is included
-- because events without a name need it in the type of these texts, _name_text.
SELECT id, value AS name, function_name(value) AS unversioned
FROM StringIds
UNION ALL
SELECT NULL, 'unknown', 'unknown'
