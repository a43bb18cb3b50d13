/*
title    = "Collectives matched across ranks"
question = "Which collectives of the ranks belong together?"
source   = """the k-th of each rank in a communicator; where a rank began earlier or later, shifted
    by up to three to overlap in UTC"""
grain    = "collective of a rank of a job with several ranks in the communicator"
needs    = ["_rank_collective"]
returns = [
    "job", "communicator", "sequence", "rank", "kind", "is_synchronizing", "bytes", "source",
    "trace_id", "collective_id", "start_ns", "end_ns", "utc_start_ns", "host", "mismatch",
]
[columns]
sequence = "number of the collective, as the lowest rank of the communicator counts"
mismatch = "why the ranks do not agree; NULL for a matched collective"
*/
WITH
shared AS (
    SELECT *, min(rank) OVER same AS first_rank,
        -- Traces of one file share its clock, even where its UTC is unknown.
        coalesce(utc_start_ns, 0)::HUGEINT AS base_ns
    FROM _rank_collective
    WINDOW same AS (PARTITION BY job, communicator)
    QUALIFY min(rank) OVER same < max(rank) OVER same
),
pair AS (
    SELECT o.job, o.communicator, o.rank, s.shift, count(*) AS overlapping
    FROM shared o
    CROSS JOIN (SELECT unnest(range(-3, 4)) AS shift) s
    JOIN shared f
        ON  f.job = o.job AND f.communicator = o.communicator AND f.rank = o.first_rank
        AND f.position = o.position + s.shift AND f.kind IS NOT DISTINCT FROM o.kind
    WHERE o.rank > o.first_rank AND NOT o.is_recorded
      AND o.start_ns + o.base_ns < f.end_ns + f.base_ns
      AND o.end_ns + o.base_ns > f.start_ns + f.base_ns
    GROUP BY ALL
),
best AS (
    SELECT job, communicator, rank, shift FROM pair
    QUALIFY row_number() OVER (
        PARTITION BY job, communicator, rank ORDER BY overlapping DESC, abs(shift), shift) = 1
),
shifted AS (
    SELECT s.* EXCLUDE (position), s.position + coalesce(b.shift, 0) AS sequence
    FROM shared s
    LEFT JOIN best b
        ON b.job = s.job AND b.communicator = s.communicator AND b.rank = s.rank
),
-- The kind and size of most ranks; among equals, of the lowest rank.
value AS (
    SELECT job, communicator, sequence, kind, bytes,
        count(*) AS ranks, min(rank) AS lowest
    FROM shifted GROUP BY ALL
),
usual AS (
    SELECT job, communicator, sequence, kind, bytes FROM value
    QUALIFY row_number() OVER (
        PARTITION BY job, communicator, sequence ORDER BY ranks DESC, lowest) = 1
),
members AS (
    SELECT DISTINCT job, communicator, rank FROM shifted
),
absent AS (
    SELECT v.job, v.communicator, v.sequence,
        'not on rank ' || string_agg(m.rank::VARCHAR, ', ' ORDER BY m.rank) AS why
    FROM usual v
    JOIN members m USING (job, communicator)
    ANTI JOIN shifted s
        ON  s.job = v.job AND s.communicator = v.communicator AND s.sequence = v.sequence
        AND s.rank = m.rank
    GROUP BY ALL
),
different AS (
    SELECT s.job, s.communicator, s.sequence,
        string_agg(
            CASE WHEN s.kind IS DISTINCT FROM u.kind THEN format('rank {} has {} against {}',
                s.rank, coalesce(s.kind, 'unknown'), coalesce(u.kind, 'unknown'))
            ELSE format('rank {} has {} bytes against {}', s.rank, s.bytes, u.bytes) END,
            '; ' ORDER BY s.rank) AS why
    FROM shifted s
    JOIN usual u USING (job, communicator, sequence)
    WHERE s.kind IS DISTINCT FROM u.kind
       -- Parts of an all-to-all can differ.
       OR s.bytes <> u.bytes
      AND s.kind IN ('all_reduce', 'all_gather', 'reduce_scatter', 'broadcast', 'reduce')
    GROUP BY ALL
)
SELECT s.job, s.communicator, s.sequence, s.rank, s.kind, s.is_synchronizing, s.bytes, s.source,
    s.trace_id, s.collective_id, s.start_ns, s.end_ns, s.utc_start_ns, s.host,
    nullif(concat_ws('; ', a.why, d.why), '') AS mismatch
FROM shifted s
LEFT JOIN absent a
    ON a.job = s.job AND a.communicator = s.communicator AND a.sequence = s.sequence
LEFT JOIN different d
    ON d.job = s.job AND d.communicator = s.communicator AND d.sequence = s.sequence
