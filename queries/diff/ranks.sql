/*
title    = "Communication of two runs"
question = "Do the ranks of B communicate and wait for each other more or less than those of A?"
source   = """comm_overlap and straggler side by side: means of iterations in the window; of a trace
    without iterations, totals"""
grain    = "measure of a rank"
needs    = ["diff_side", "rank_communication"]
optional = ["rank_lateness", "process", "trace"]
[columns]
rank = """rank in the job; of traces without a rank, number of the process and device on each side,
    ordered by trace name, process id and device"""
place = "device, or host for collectives on the host"
measure = """communication; exposed communication; wait for later ranks; wait caused: of the other
    ranks, where this one is last"""
a_ns = "time in A; NULL when unknown, and without the rank"
b_ns = "time in B; NULL when unknown, and without the rank"
change_ns = "B − A; NULL if one is unknown, or if only one side has iterations"
change_pct = "change ÷ time in A; NULL if A has none"
a_last_pct = "of wait caused: share of the decided collectives in A that the rank starts last"
b_last_pct = "the same in B"
a_verdict = "of wait caused: verdict of straggler on the job in A"
b_verdict = "the same in B"
per_a = "iteration or trace"
per_b = "iteration or trace"
[plot]
kind = "grouped_barh"
x = ["measure", "rank", "place"]
y = [["a_ns", "b_ns"]]
limit = 32
title = "Communication by rank"
*/
WITH
timed AS (
    SELECT d.side, c.job, c.rank, c.trace_id, c.process_id, c.device_id,
        coalesce('device ' || c.device_id, 'host') AS place,
        count(*) FILTER (c.by_iteration AND c.iteration IS NOT NULL) AS iterations,
        avg(c.communication_ns) FILTER (c.by_iteration AND c.iteration IS NOT NULL) AS of_iteration,
        avg(c.exposed_ns) FILTER (c.by_iteration AND c.iteration IS NOT NULL)
            AS exposed_of_iteration,
        max(c.communication_ns) FILTER (NOT c.by_iteration) AS of_trace,
        max(c.exposed_ns) FILTER (NOT c.by_iteration) AS exposed_of_trace
    FROM diff_side d
    JOIN rank_communication c USING (trace_id)
    GROUP BY d.side, c.job, c.rank, c.trace_id, c.process_id, c.device_id
),
placed AS (
    SELECT s.*, if(s.iterations > 0, 'iteration', 'trace') AS per,
        if(s.iterations > 0, s.of_iteration, s.of_trace) AS communication_ns,
        if(s.iterations > 0, s.exposed_of_iteration, s.exposed_of_trace) AS exposed_ns,
        coalesce(s.rank, row_number() OVER (
            PARTITION BY s.side, s.rank IS NULL, s.device_id IS NULL
            ORDER BY t.name, s.trace_id, p.pid, s.process_id, s.device_id) - 1) AS number,
        row_number() OVER (
            PARTITION BY s.side, s.job, s.rank ORDER BY s.device_id, s.process_id) = 1 AS is_first
    FROM timed s
    JOIN trace t ON t.trace_id = s.trace_id
    LEFT JOIN process p ON p.trace_id = s.trace_id AND p.process_id = s.process_id
),
-- Waits are those of the rank: they have one row of it.
waiting AS (
    SELECT p.*, l.verdict, l.share_last_pct,
        l.suffered_wait_ns / if(p.iterations > 0, p.iterations, 1) AS suffered_ns,
        l.caused_wait_ns / if(p.iterations > 0, p.iterations, 1) AS caused_ns
    FROM placed p
    LEFT JOIN rank_lateness l ON l.job = p.job AND l.rank = p.rank AND p.is_first AND l.decided > 0
),
measured AS (
    SELECT side, number, place, per, unnest([
        {'position': 0, 'measure': 'communication', 'ns': communication_ns, 'last': NULL,
            'verdict': NULL},
        {'position': 1, 'measure': 'exposed communication', 'ns': exposed_ns, 'last': NULL,
            'verdict': NULL},
        {'position': 2, 'measure': 'wait for later ranks', 'ns': suffered_ns, 'last': NULL,
            'verdict': NULL},
        {'position': 3, 'measure': 'wait caused', 'ns': caused_ns, 'last': share_last_pct,
            'verdict': verdict}
    ]) AS m
    FROM waiting
)
SELECT coalesce(a.number, b.number) AS rank, coalesce(a.place, b.place) AS place,
    coalesce(a.m.measure, b.m.measure) AS measure, a.m.ns AS a_ns, b.m.ns AS b_ns,
    if(a.per = b.per, b.m.ns - a.m.ns, NULL) AS change_ns,
    100.0 * change_ns / nullif(a_ns, 0) AS change_pct,
    a.m.last AS a_last_pct, b.m.last AS b_last_pct, a.m.verdict AS a_verdict,
    b.m.verdict AS b_verdict, a.per AS per_a, b.per AS per_b
FROM (FROM measured WHERE side = 'A') a
FULL JOIN (FROM measured WHERE side = 'B') b
    ON  b.number = a.number AND b.m.position = a.m.position
    -- The GPU of a rank can have another number.
    AND (b.place = 'host') = (a.place = 'host')
WHERE a.m.ns IS NOT NULL OR b.m.ns IS NOT NULL
ORDER BY coalesce(a.m.position, b.m.position), rank, place
