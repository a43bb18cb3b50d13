-- Pushes and pulls left after `count` messages: first the pulls, then rounds of `round` pushes
-- and as many pulls.
CREATE OR REPLACE TEMP MACRO _last_round(pushes, count, round) AS [
    pushes - least(count, round, pushes),
    least(count, round, pushes) - least(count, round, pushes, greatest(0, count - round))];
CREATE OR REPLACE TEMP MACRO _rounds(pushes, count, round, rounds) AS _last_round(
    pushes - rounds * round, count - 2 * rounds * round, round);
CREATE OR REPLACE TEMP MACRO slices_left(pushes, pulls, count, round) AS if(count <= pulls,
    [pushes, pulls - count],
    _rounds(pushes, count - pulls, round,
        least((count - pulls) // (2 * round), pushes // round)));

-- The end of an iteration with co-located parameter servers, for rows of the relation or CTE
-- `points`: id, trace_id, scheme (ps or p3), byte_s (time on the link per byte of gradients, half
-- of it pushed, half pulled) and latency_s (of a push and of a pull). Reads _dp_layer, _dp_run and
-- _dp_setting. The link of a worker carries one message at a time.
CREATE OR REPLACE TEMP MACRO parameter_server_end(points) AS TABLE
WITH RECURSIVE
-- FIFO: the message that has waited longest is sent. Pushes and pulls both follow the order of the
-- gradients, so `pushed` and `pulled` count them.
listed AS MATERIALIZED (
    SELECT trace_id, list(ready_s ORDER BY number DESC) AS ready_s,
        list(gradient_bytes / 2 ORDER BY number DESC) AS half_bytes,
        arg_min(after_s, number) AS after_s
    FROM _dp_layer GROUP BY trace_id
),
queue AS (
    SELECT DISTINCT trace_id, byte_s, latency_s, 0 AS pushed, 0 AS pulled, 0.0::DOUBLE AS now_s,
        []::DOUBLE[] AS sent_s
    FROM query_table(points)
    UNION ALL
    SELECT trace_id, byte_s, latency_s, pushed + is_push::INTEGER,
        pulled + (NOT is_push)::INTEGER, end_s, if(is_push, list_append(sent_s, end_s), sent_s)
    FROM (
        SELECT q.*, is_push,
            if(is_push, greatest(now_s, l.ready_s[pushed + 1]) + l.half_bytes[pushed + 1] * byte_s,
                greatest(now_s, sent_s[pulled + 1] + latency_s)
                    + l.half_bytes[pulled + 1] * byte_s) AS end_s
        FROM queue q
        JOIN listed l USING (trace_id)
        CROSS JOIN LATERAL (
            SELECT coalesce(l.ready_s[q.pushed + 1] <= q.sent_s[q.pulled + 1] + q.latency_s,
                q.pushed < len(l.ready_s)) AS is_push
        ) c
        WHERE q.pulled < len(l.ready_s)
    )
),
fifo AS (
    SELECT trace_id, q.byte_s, q.latency_s,
        greatest(r.alone_s, q.now_s + q.latency_s + l.after_s + r.rest_s) AS end_s
    FROM queue q
    JOIN listed l USING (trace_id)
    JOIN _dp_run r USING (trace_id)
    WHERE q.pulled = len(l.ready_s)
),
-- P3: earlier layers interrupt later ones between two slices. The iteration then waits for the
-- worst of: a layer is ready, the slice in flight ends, it and all earlier layers are sent.
sent AS (
    SELECT p.id, p.trace_id, p.byte_s, p.latency_s, l.number, l.ready_s, l.after_s, l.slices,
        l.gradient_bytes * p.byte_s AS work_s, l.up_to_bytes * p.byte_s AS up_to_s,
        l.gradient_bytes * p.byte_s / 2 / l.slices AS slice_s,
        s.slice_bytes * p.byte_s / 2 AS usual_s,
        max(l.ready_s + up_to_s) OVER later - up_to_s - l.ready_s AS backlog_s,
        l.ready_s - arg_max(l.ready_s, l.ready_s + up_to_s) OVER later AS busy_s
    FROM query_table(points) p
    JOIN _dp_layer l USING (trace_id)
    CROSS JOIN _dp_setting s
    WHERE p.scheme = 'p3'
    WINDOW later AS (
        PARTITION BY p.id ORDER BY l.number DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
),
blocked AS (
    SELECT *, if(backlog_s > 0, least(backlog_s, ceil(busy_s / usual_s - 1e-9) * usual_s - busy_s),
            0) AS blocked_s,
        coalesce(greatest(backlog_s, 0) - blocked_s, 0) AS behind_s,
        ready_s + blocked_s + up_to_s + latency_s + after_s AS end_s,
        -- A pull follows its push by the latency, so this many pushes leave before the first pull.
        1 + ceil(latency_s / slice_s - 1e-9)::BIGINT AS round
    FROM sent
),
tailed AS MATERIALIZED (
    SELECT *, if(slices % round = 0, 0, greatest(0, latency_s - (slices % round - 1) * slice_s))
        AS gap_s
    FROM blocked
),
-- Slices of the decisive layer that are sent between the interruptions: the pushes left for its
-- last round determine how long its last pull waits.
decisive AS (
    SELECT id, number, slice_s, round, ready_s + blocked_s AS free_s, slices AS pushes, 0 AS pulls,
        number AS earlier, latency_s, usual_s, behind_s, end_s
    FROM tailed QUALIFY row_number() OVER (PARTITION BY id ORDER BY end_s DESC, number) = 1
),
resumed AS (
    FROM decisive
    UNION ALL
    SELECT id, number, slice_s, round, free_s + work_s + (count + in_gap) * slice_s,
        last_pushes, last_pulls, earlier - 1, latency_s, usual_s, behind_s, end_s
    FROM (
        SELECT *,
            slices_left(first_pushes, first_pulls, in_gap, round)[1] AS last_pushes,
            slices_left(first_pushes, first_pulls, in_gap, round)[2] AS last_pulls
        FROM (
            SELECT *, slices_left(pushes, pulls, count, round)[1] AS first_pushes,
                slices_left(pushes, pulls, count, round)[2] AS first_pulls
            FROM (
                SELECT r.*, t.work_s,
                    if(r.free_s >= t.ready_s - 1e-15, 0,
                        ceil((t.ready_s - r.free_s) / r.slice_s - 1e-9))::BIGINT AS count,
                    if(r.free_s >= t.ready_s - 1e-15, 0,
                        ceil(t.gap_s / r.slice_s - 1e-9))::BIGINT AS in_gap
                FROM resumed r JOIN tailed t ON t.id = r.id AND t.number = r.earlier - 1
            )
        )
    )
),
priority AS (
    SELECT r.id, if(r.pushes % r.round = 0, 0,
            greatest(0, r.latency_s - (r.pushes % r.round - 1) * r.slice_s)) AS wait_s,
        r.end_s + greatest(wait_s, least(r.behind_s,
            ceil(wait_s / r.usual_s - 1e-9) * r.usual_s)) AS end_s
    FROM resumed r WHERE r.earlier = 1
)
SELECT p.id,
    if(p.scheme = 'ps', f.end_s, least(f.end_s, greatest(r.alone_s, q.end_s + r.rest_s))) AS end_s
FROM query_table(points) p
JOIN _dp_run r USING (trace_id)
JOIN fifo f USING (trace_id, byte_s, latency_s)
LEFT JOIN priority q USING (id);
