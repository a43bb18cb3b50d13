-- Texts of the ranges around the all-reduce of a bucket of gradients.
SELECT
    id,
    regexp_extract(value, '^\w+') AS kind,
    TRY_CAST(regexp_extract(value, 'bytes = (\d+)', 1) AS BIGINT) AS bytes,
    TRY_CAST(regexp_extract(value, 'bucket = (\d+)$', 1) AS BIGINT) AS bucket
FROM StringIds
WHERE value ~ '\w+, bytes = \d+, bucket = \d+'
