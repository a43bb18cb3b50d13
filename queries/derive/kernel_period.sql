/*
title    = "Iteration boundaries from the kernels' period"
question = "Where does each iteration begin, when the program marks none?"
source   = "a training loop launches the same sequence of kernels again and again"
grain    = "one period of the kernel sequence of one process"
needs    = ["gpu_op"]
optional = ["kernel", "launch", "iteration_mark"]
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
doc = "when the next period begins; for the last, when its last kernel was launched, plus 1"
[columns.thread_id]
doc = "thread that launched the first kernel; NULL where launches are unknown"
[columns.confidence]
doc = "share of the kernels, from the first period on, that lie in identical periods: 1 is perfect"
*/
WITH
-- (DuckDB's hashes are the same for some names that differ in their numbers alone.)
kernel_name AS (
    SELECT name, row_number() OVER (ORDER BY name) AS number FROM (SELECT DISTINCT name FROM gpu_op)
),
-- A CUDA graph traced as a whole counts as one kernel; -1 stands for an unknown process.
ordered AS (
    SELECT o.trace_id, coalesce(o.process_id, -1) AS process_id, o.op_id, o.device_id, o.stream_id,
        l.thread_id, coalesce(k.short_name, o.name) AS label, o.start_ns,
        coalesce(l.start_ns, o.start_ns) AS at_ns, coalesce(l.end_ns, o.end_ns) AS done_ns,
        l.start_ns IS NOT NULL AS is_launched,
        hash(n.number, k.grid_x, k.grid_y, k.grid_z, k.block_x, k.block_y, k.block_z) AS signature
    -- (filtered first, or everything would be joined to be dropped)
    FROM (
        SELECT o.* FROM gpu_op o
        WHERE o.op_kind IN ('kernel', 'graph')
          AND NOT EXISTS (
              SELECT 1 FROM iteration_mark m
              WHERE m.trace_id = o.trace_id AND m.process_id IS NOT DISTINCT FROM o.process_id)
    ) o
    LEFT JOIN kernel_name n ON n.name = o.name
    LEFT JOIN kernel k
        ON k.trace_id = o.trace_id AND k.kernel_id = o.op_id AND o.op_kind = 'kernel'
    LEFT JOIN launch l
        ON  l.trace_id = o.trace_id AND l.correlation_id = o.correlation_id
        AND (l.process_id = o.process_id OR (o.process_id IS NULL AND l.is_sole))
    QUALIFY is_launched = bool_or(l.start_ns IS NOT NULL) OVER (PARTITION BY o.trace_id, o.process_id)
),
-- What keeps its order from iteration to iteration: the launches of one thread, whatever the
-- streams do, and the kernels of one stream, whichever threads launch. The longer sequence counts.
followed AS (
    SELECT * FROM (
        SELECT trace_id, process_id, thread_id, device_id, NULL::BIGINT AS stream_id,
            false AS by_stream, count(*) AS kernels
        FROM ordered WHERE is_launched GROUP BY ALL
        UNION ALL
        SELECT trace_id, process_id, NULL, device_id, stream_id, true, count(*)
        FROM ordered GROUP BY ALL
    )
    QUALIFY row_number() OVER (
        PARTITION BY trace_id, process_id
        ORDER BY kernels DESC, by_stream, thread_id, device_id, stream_id) = 1
),
walk AS (
    SELECT o.*, o.signature % 1000003 + 1 AS code,
        row_number() OVER (
            PARTITION BY o.trace_id, o.process_id
            ORDER BY CASE WHEN f.by_stream THEN o.start_ns ELSE o.at_ns END, o.start_ns, o.op_id
        ) AS position
    FROM ordered o
    JOIN followed f
        ON  f.trace_id = o.trace_id AND f.process_id = o.process_id
        AND f.device_id IS NOT DISTINCT FROM o.device_id
        AND CASE WHEN f.by_stream THEN f.stream_id IS NOT DISTINCT FROM o.stream_id
                 ELSE f.thread_id IS NOT DISTINCT FROM o.thread_id END
),
sequence AS (
    SELECT *,
        count(*) OVER (PARTITION BY trace_id, process_id) AS length,
        greatest(at_ns - lag(done_ns) OVER so_far, 0) AS idle_before_ns,
        -- Two prefix sums tell in constant time whether two stretches are the same sequence.
        sum(code::HUGEINT) OVER so_far AS plain_sum,
        sum(code::HUGEINT * position) OVER so_far AS weighted_sum
    FROM walk
    WINDOW so_far AS (
        PARTITION BY trace_id, process_id ORDER BY position ROWS UNBOUNDED PRECEDING)
),
-- Every signature may begin a period: cut the sequence at each of its occurrences.
cut AS (
    SELECT *,
        lead(position) OVER occurrence AS next_position,
        lead(plain_sum) OVER occurrence - plain_sum AS plain,
        lead(weighted_sum) OVER occurrence - weighted_sum AS weighted
    FROM sequence
    WINDOW occurrence AS (PARTITION BY trace_id, process_id, signature ORDER BY position)
),
segment AS (
    SELECT *, next_position - position AS kernels,
        {'kernels': next_position - position, 'plain': plain, 'weighted': weighted - position * plain
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
-- The stretch of identical periods that covers most, per signature.
run AS (
    SELECT trace_id, process_id, signature, fingerprint, kernels, count(*) * kernels AS covered,
        min(position) AS first_position
    FROM islands
    GROUP BY trace_id, process_id, signature, fingerprint, kernels, island
    HAVING count(*) >= 2 AND kernels >= 2
    QUALIFY row_number() OVER (
        PARTITION BY trace_id, process_id, signature ORDER BY covered DESC, kernels, island) = 1
),
idle AS (
    SELECT trace_id, process_id, signature, median(idle_before_ns) AS idle_before_ns
    FROM sequence GROUP BY ALL
),
-- The finest period among those that cover nearly as much as the best. Of its kernels the one
-- before which the host clearly waits longest, where an iteration naturally begins; else the first.
anchor AS (
    SELECT r.*, i.idle_before_ns,
        max(covered) OVER (PARTITION BY r.trace_id, r.process_id) AS most_covered
    FROM run r JOIN idle i USING (trace_id, process_id, signature)
    QUALIFY covered >= 0.8 * most_covered
),
finest AS (
    SELECT *, idle_before_ns > 2 * first_value(idle_before_ns) OVER (
            PARTITION BY trace_id, process_id ORDER BY first_position) AS is_natural
    FROM anchor
    QUALIFY kernels = min(kernels) OVER (PARTITION BY trace_id, process_id)
),
chosen AS (
    SELECT trace_id, process_id, signature, kernels, fingerprint FROM finest
    QUALIFY row_number() OVER (
        PARTITION BY trace_id, process_id
        ORDER BY coalesce(is_natural, false) DESC, CASE WHEN is_natural THEN idle_before_ns END DESC,
            first_position) = 1
),
-- The last occurrence is a period if what follows is the same sequence.
occurrence AS (
    SELECT o.trace_id, o.process_id, o.position, o.length, o.at_ns, o.thread_id, o.label, c.kernels,
        e.at_ns AS last_at_ns,
        c.fingerprint = CASE
            WHEN o.next_position IS NULL THEN
                {'kernels': c.kernels, 'plain': e.plain_sum - o.plain_sum + o.code,
                 'weighted': e.weighted_sum - o.weighted_sum
                    - o.position * (e.plain_sum - o.plain_sum) + c.kernels * o.code}
            ELSE {'kernels': o.next_position - o.position, 'plain': o.plain,
                  'weighted': o.weighted - o.position * o.plain}
        END AS is_period
    FROM chosen c
    JOIN cut o USING (trace_id, process_id, signature)
    LEFT JOIN sequence e
        ON  e.trace_id = o.trace_id AND e.process_id = o.process_id
        AND e.position = o.position + c.kernels - 1
),
judged AS (
    SELECT *,
        count(*) FILTER (is_period) OVER whole AS periods,
        count(*) FILTER (is_period) OVER whole * kernels AS in_periods,
        min(position) FILTER (is_period) OVER whole AS first_position,
        max(position) FILTER (is_period) OVER whole AS last_position
    FROM occurrence
    WINDOW whole AS (PARTITION BY trace_id, process_id)
),
period AS (
    SELECT *,
        coalesce(lead(at_ns) OVER (PARTITION BY trace_id, process_id ORDER BY position), last_at_ns + 1)
            AS end_ns,
        least(1.0, in_periods / (length - first_position + 1)) AS confidence
    FROM judged
    WHERE position BETWEEN first_position AND last_position
)
SELECT trace_id, nullif(process_id, -1) AS process_id,
    row_number() OVER (PARTITION BY trace_id, process_id ORDER BY position) - 1 AS iteration,
    label, at_ns AS start_ns, end_ns, thread_id, round(confidence, 4) AS confidence
FROM period
-- Two of a kind are no loop, and a loop that most of the program is not about says little of it.
WHERE periods >= 3 AND in_periods >= 0.5 * length
  AND confidence >= coalesce(getvariable('min_confidence'), 0.5)
