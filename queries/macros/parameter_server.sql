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

-- A pull follows its push by the latency, so this many pushes leave before the first pull.
CREATE OR REPLACE TEMP MACRO pushes_ahead(latency_s, slice_s) AS
    1 + ceil(latency_s / slice_s - 1e-9)::BIGINT;
-- How long the link waits for the first pull of the last, incomplete round of some pushes.
CREATE OR REPLACE TEMP MACRO _wait_of(pushes, latency_s, slice_s) AS
    if(pushes = 0, 0, greatest(0, latency_s - (pushes - 1) * slice_s));
CREATE OR REPLACE TEMP MACRO last_wait(pushes, latency_s, slice_s) AS
    _wait_of(pushes % pushes_ahead(latency_s, slice_s), latency_s, slice_s);

-- The end of an iteration with co-located parameter servers, for rows of the relation or CTE
-- `points`: id, trace_id, scheme (ps or p3), byte_s (time on the link per byte of gradients, half
-- of it pushed, half pulled) and latency_s (of a push and of a pull). Reads _dp_layer, _dp_run and
-- _dp_setting. The link of a worker carries one message at a time.
CREATE OR REPLACE TEMP MACRO parameter_server_end(points) AS TABLE
WITH RECURSIVE
-- FIFO: the message that has waited longest is sent. Pushes and pulls both follow the order of the
-- gradients: `push` and `pull` are the places of the next ones.
message AS MATERIALIZED (
    SELECT trace_id, number, row_number() OVER (PARTITION BY trace_id ORDER BY number DESC)
            AS place,
        ready_s, after_s, gradient_bytes / 2 AS half_bytes, slices
    FROM _dp_layer
),
queue AS (
    SELECT id, trace_id, byte_s, latency_s, 1 AS push, 1 AS pull, 0.0::DOUBLE AS now_s,
        []::DOUBLE[] AS sent_s
    FROM query_table(points) WHERE scheme = 'ps'
    UNION ALL
    SELECT id, trace_id, byte_s, latency_s, push + is_push::INTEGER, pull + (NOT is_push)::INTEGER,
        end_s, if(is_push, list_append(sent_s, end_s), sent_s)
    FROM (
        SELECT q.*, coalesce(f.ready_s <= q.sent_s[q.pull] + q.latency_s, f.ready_s IS NOT NULL)
                AS is_push,
            if(is_push, greatest(q.now_s, f.ready_s) + f.half_bytes * q.byte_s,
                greatest(q.now_s, q.sent_s[q.pull] + q.latency_s) + t.half_bytes * q.byte_s)
                AS end_s
        FROM queue q
        JOIN message t ON t.trace_id = q.trace_id AND t.place = q.pull
        LEFT JOIN message f ON f.trace_id = q.trace_id AND f.place = q.push
    )
),
fifo AS (
    SELECT q.id, q.now_s + q.latency_s + m.after_s AS end_s
    FROM queue q
    JOIN message m ON m.trace_id = q.trace_id AND m.place = q.pull - 1 AND m.number = 1
),
-- P3: earlier layers interrupt later ones between two slices. The iteration then waits for the
-- worst of: a layer is ready, the slice in flight ends, it and all earlier layers are sent.
sent AS (
    SELECT p.id, p.trace_id, p.byte_s, p.latency_s, l.number, l.ready_s, l.after_s, l.slices,
        l.up_to_bytes * p.byte_s AS up_to_s,
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
        max(after_s) OVER all_layers + greatest(max(ready_s + up_to_s) OVER all_layers + latency_s,
            max(if(number = 1, ready_s + up_to_s + 2 * latency_s, 0)) OVER all_layers) AS fifo_s
    FROM sent WINDOW all_layers AS (PARTITION BY id)
),
-- Slices of the decisive layer that are sent between the interruptions: the pushes left for its
-- last round determine how long its last pull waits.
decisive AS (
    SELECT id, trace_id, byte_s, latency_s, slice_s, pushes_ahead(latency_s, slice_s) AS round,
        ready_s + blocked_s AS free_s, slices AS pushes, 0 AS pulls, number AS earlier, usual_s,
        behind_s, end_s, fifo_s
    FROM blocked QUALIFY row_number() OVER (PARTITION BY id ORDER BY end_s DESC, number) = 1
),
resumed AS (
    FROM decisive
    UNION ALL
    SELECT id, trace_id, byte_s, latency_s, slice_s, round,
        free_s + work_s + (count + in_gap) * slice_s, last_pushes, last_pulls, earlier - 1, usual_s,
        behind_s, end_s, fifo_s
    FROM (
        SELECT *,
            slices_left(first_pushes, first_pulls, in_gap, round)[1] AS last_pushes,
            slices_left(first_pushes, first_pulls, in_gap, round)[2] AS last_pulls
        FROM (
            SELECT *, slices_left(pushes, pulls, count, round)[1] AS first_pushes,
                slices_left(pushes, pulls, count, round)[2] AS first_pulls
            FROM (
                SELECT r.*, 2 * t.half_bytes * r.byte_s AS work_s,
                    if(r.free_s >= t.ready_s - 1e-15, 0,
                        ceil((t.ready_s - r.free_s) / r.slice_s - 1e-9))::BIGINT AS count,
                    if(r.free_s >= t.ready_s - 1e-15, 0, ceil(last_wait(t.slices, r.latency_s,
                        t.half_bytes * r.byte_s / t.slices) / r.slice_s - 1e-9))::BIGINT
                        AS in_gap
                FROM resumed r
                JOIN message t ON t.trace_id = r.trace_id AND t.number = r.earlier - 1
            )
        )
    )
),
priority AS (
    SELECT r.id, last_wait(r.pushes, r.latency_s, r.slice_s) AS wait_s,
        -- Never later than FIFO, whose end is at least fifo_s.
        least(r.fifo_s, r.end_s + greatest(wait_s, least(r.behind_s,
            ceil(wait_s / r.usual_s - 1e-9) * r.usual_s))) AS end_s
    FROM resumed r WHERE r.earlier = 1
)
SELECT e.id, greatest(r.alone_s, e.end_s + r.rest_s) AS end_s
FROM (FROM fifo UNION ALL SELECT id, end_s FROM priority) e
JOIN query_table(points) p USING (id)
JOIN _dp_run r USING (trace_id);
