/*
title    = "Iteration boundaries from the kernels' period"
question = "Where does each iteration begin, when the program marks none?"
source   = "a training loop launches the same sequence of kernels again and again"
grain    = "one period of the kernel sequence of one process"
needs    = ["kernel"]
optional = ["launch", "iteration_mark"]
[params.min_confidence]
doc = "smallest share of the kernels that must lie in identical periods"
default = 0.5
[columns.trace_id]
doc = "the trace"
[columns.process_id]
doc = "key of the process"
[columns.iteration]
doc = "number of the period in its process, from 0 in order of time"
[columns.label]
doc = "short name of the kernel that every period begins with"
[columns.start_ns]
unit = "ns"
doc = "when the first kernel was launched; where launches are unknown, when it began"
[columns.end_ns]
unit = "ns"
doc = "when the next period begins, or the last kernel was launched"
[columns.thread_id]
doc = "thread whose launches show the period; NULL where launches are unknown"
[columns.confidence]
doc = "share of the kernels, from the first period on, that lie in identical periods: 1 is perfect"
*/
WITH
-- The launches of one thread keep their order whatever the streams do, so the busiest launching
-- thread of the process is followed; without launch records the order on its busiest device.
ordered AS (
    -- -1 stands for an unknown process, so that it joins with itself
    SELECT k.trace_id, coalesce(k.process_id, -1) AS process_id, l.thread_id, k.device_id, k.kernel_id, k.short_name, k.name,
        coalesce(l.start_ns, k.start_ns) AS at_ns,
        k.start_ns, k.end_ns, k.duration_ns,
        hash(k.name, k.grid_x, k.grid_y, k.grid_z, k.block_x, k.block_y, k.block_z) AS signature
    FROM kernel k
    LEFT JOIN launch l
        ON  l.trace_id = k.trace_id AND l.process_id IS NOT DISTINCT FROM k.process_id
        AND l.correlation_id = k.correlation_id
    WHERE k.start_ns IS NOT NULL
      AND NOT EXISTS (
          SELECT 1 FROM iteration_mark m
          WHERE m.trace_id = k.trace_id AND m.process_id IS NOT DISTINCT FROM k.process_id)
),
driver AS (
    SELECT trace_id, process_id, thread_id, device_id
    FROM ordered
    GROUP BY trace_id, process_id, thread_id, device_id
    QUALIFY row_number() OVER (
        PARTITION BY trace_id, process_id
        ORDER BY count(*) DESC, thread_id NULLS LAST, device_id) = 1
),
sequence AS (
    SELECT o.*,
        row_number() OVER walk AS position,
        count(*) OVER (PARTITION BY o.trace_id, o.process_id) AS length,
        greatest(o.start_ns - lag(o.end_ns) OVER walk, 0) AS idle_before_ns,
        -- Two prefix sums tell in constant time whether two stretches are the same sequence.
        sum((o.signature % 1000003 + 1)::HUGEINT) OVER walk AS plain_sum,
        sum((o.signature % 1000003 + 1)::HUGEINT * walk_position) OVER walk AS weighted_sum
    FROM (
        SELECT o.*, row_number() OVER (
            PARTITION BY o.trace_id, o.process_id ORDER BY o.at_ns, o.kernel_id) AS walk_position
        FROM ordered o
        JOIN driver d
            ON  d.trace_id = o.trace_id AND d.process_id = o.process_id
            AND d.thread_id IS NOT DISTINCT FROM o.thread_id
            AND d.device_id IS NOT DISTINCT FROM o.device_id
    ) o
    WINDOW walk AS (
        PARTITION BY o.trace_id, o.process_id ORDER BY o.walk_position ROWS UNBOUNDED PRECEDING)
),
-- Every signature may begin a period: cut the sequence at each of its occurrences.
cut AS (
    SELECT s.*,
        lead(position) OVER occurrence AS next_position,
        lead(plain_sum) OVER occurrence AS next_plain_sum,
        lead(weighted_sum) OVER occurrence AS next_weighted_sum,
        first_value(position) OVER occurrence AS first_position
    FROM sequence s
    WINDOW occurrence AS (
        PARTITION BY trace_id, process_id, signature ORDER BY position
        ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
),
segment AS (
    SELECT *,
        next_position - position AS kernels,
        {'kernels': next_position - position,
         'plain': next_plain_sum - plain_sum,
         'weighted': next_weighted_sum - weighted_sum - position * (next_plain_sum - plain_sum)
        } AS fingerprint
    FROM cut WHERE next_position IS NOT NULL
),
islands AS (
    SELECT *,
        row_number() OVER (PARTITION BY trace_id, process_id, signature ORDER BY position)
        - row_number() OVER (
            PARTITION BY trace_id, process_id, signature, fingerprint ORDER BY position) AS island
    FROM segment
),
run AS (
    SELECT trace_id, process_id, signature, fingerprint, kernels, island,
        count(*) AS repeats, count(*) * kernels AS covered,
        any_value(length) AS length, min(first_position) AS first_position
    FROM islands
    GROUP BY trace_id, process_id, signature, fingerprint, kernels, island
    HAVING count(*) >= 2 AND kernels >= 2
),
-- The stretch of identical periods that covers most, per signature.
best_run AS (
    SELECT * FROM run
    QUALIFY row_number() OVER (
        PARTITION BY trace_id, process_id, signature ORDER BY covered DESC, kernels, island) = 1
),
idle AS (
    SELECT trace_id, process_id, signature, avg(idle_before_ns) AS idle_before_ns
    FROM sequence GROUP BY ALL
),
-- The finest period among those that cover nearly as much as the best; of its kernels the one
-- that follows the longest idle time, where an iteration naturally begins.
anchor AS (
    SELECT b.*, i.idle_before_ns,
        max(covered) OVER (PARTITION BY b.trace_id, b.process_id) AS most_covered
    FROM best_run b JOIN idle i USING (trace_id, process_id, signature)
    QUALIFY covered >= 0.8 * most_covered
),
chosen AS (
    SELECT * FROM anchor
    QUALIFY row_number() OVER (
        PARTITION BY trace_id, process_id
        ORDER BY kernels, idle_before_ns DESC NULLS LAST, first_position) = 1
),
identical AS (
    SELECT c.trace_id, c.process_id,
        sum(s.kernels) FILTER (s.fingerprint = c.fingerprint) AS in_identical
    FROM chosen c
    JOIN segment s USING (trace_id, process_id, signature)
    GROUP BY ALL
),
period AS (
    SELECT c.trace_id, c.process_id, o.thread_id, o.at_ns AS start_ns,
        coalesce(lead(o.at_ns) OVER later, max(e.at_ns) OVER whole + 1) AS end_ns,
        coalesce(o.short_name, o.name) AS label,
        -- the last occurrence is a whole period only if enough kernels follow it
        o.next_position IS NOT NULL OR o.length - o.position + 1 >= c.kernels AS is_whole,
        least(1.0, (i.in_identical + c.kernels) / (o.length - c.first_position + 1)) AS confidence
    FROM chosen c
    JOIN cut o USING (trace_id, process_id, signature)
    JOIN identical i USING (trace_id, process_id)
    JOIN (SELECT trace_id, process_id, max(at_ns) AS at_ns FROM sequence GROUP BY ALL) e
        USING (trace_id, process_id)
    WINDOW later AS (PARTITION BY c.trace_id, c.process_id ORDER BY o.position),
        whole AS (PARTITION BY c.trace_id, c.process_id)
)
SELECT trace_id, nullif(process_id, -1) AS process_id,
    row_number() OVER (PARTITION BY trace_id, process_id ORDER BY start_ns) - 1 AS iteration,
    label, start_ns, end_ns, thread_id, round(confidence, 4) AS confidence
FROM period
WHERE is_whole AND confidence >= coalesce(getvariable('min_confidence'), 0.5)
