-- One step of the search for the smallest bandwidth: of `brackets` (ask, trace_id, scheme,
-- latency_s, all_reduce_s, wanted_s, low and high time per byte), the end of the iteration at 17
-- places, and the narrower bracket around the last place at which it is in time. A low of NULL:
-- none is.
CREATE OR REPLACE TEMP MACRO narrowed(brackets) AS TABLE
WITH
probe AS MATERIALIZED (
    SELECT b.*, row_number() OVER (ORDER BY ask, place) AS id, place,
        low + (high - low) * place / 16.0::DOUBLE AS byte_s
    FROM query_table(brackets) b, range(17) p(place)
    WHERE low IS NOT NULL
),
ended AS (
    SELECT p.*, e.end_s, lead(byte_s) OVER up AS next_byte_s, lead(e.end_s) OVER up AS next_s
    FROM probe p
    JOIN (FROM parameter_server_end('probe') UNION ALL FROM sharded_end('probe')) e USING (id)
    WINDOW up AS (PARTITION BY ask ORDER BY place)
)
SELECT b.ask, b.trace_id, b.scheme, b.latency_s, b.all_reduce_s, b.wanted_s, e.byte_s AS low,
    coalesce(e.next_byte_s, e.byte_s) AS high, e.end_s AS low_s, e.next_s AS high_s
FROM query_table(brackets) b
LEFT JOIN (
    FROM ended WHERE end_s <= wanted_s
    QUALIFY row_number() OVER (PARTITION BY ask ORDER BY place DESC) = 1
) e USING (ask);
