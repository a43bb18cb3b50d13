/*
title    = "Skew between ranks"
question = "How far apart do the ranks begin and end each collective, and which one is last?"
source   = "matched collectives on one clock; without a common end the clocks are in doubt"
grain    = "matched collective and rank; with by=iteration, iteration and rank"
needs    = ["matched_collective"]
optional = ["clock_offset", "job_ranks", "collective", "iteration"]
returns = [
    "job", "communicator", "sequence", "iteration", "rank", "kind", "bytes", "is_synchronizing",
    "lateness_ns", "wait_ns", "start_skew_ns", "end_skew_ns", "transfer_ns", "last_rank",
    "is_anomaly", "clock", "uncertainty_ns", "mismatch", "missing_ranks", "sequence_end",
    "iteration_end",
]
[params.by]
doc = """collective: each one; iteration: the synchronizing ones of an iteration together, with
    their largest lateness and skews, and the sums of bytes, waits and transfers"""
choices = ["collective", "iteration"]
default = "collective"
[columns]
communicator = "process group or stream; NULL with by=iteration"
sequence = "number of the collective in the communicator; NULL with by=iteration"
iteration = "iteration of the rank in which the collective was issued; NULL outside of iterations"
kind = "all_reduce, broadcast, …; NULL when unknown, and with by=iteration"
lateness_ns = "start of the rank − earliest start; NULL for a mismatch"
wait_ns = "latest start − start of the rank; NULL for a mismatch"
last_rank = """rank that starts last; NULL for a mismatch, or if the skew is within the uncertainty;
    with by=iteration, of the collective with the largest skew"""
is_anomaly = """true if a synchronizing collective ends more than 10 times the uncertainty apart, on
    hosts at least 100 ms; NULL for others and for a mismatch"""
clock = "how the clock of the rank is aligned; reference for the lowest rank"
uncertainty_ns = "largest uncertainty of the clocks of the job; NULL without aligned clocks"
missing_ranks = "ranks of the job without a trace, the first 64; NULL if there is none"
sequence_end = "sequence + 1, for plots"
iteration_end = "iteration + 1, for plots; NULL with by=collective"
[[plot]]
kind = "heatmap"
x = "iteration"
x_end = "iteration_end"
y = ["lateness_ns"]
series = ["rank"]
panels = ["job"]
[[plot]]
kind = "heatmap"
x = "sequence"
x_end = "sequence_end"
x_title = "collective"
y = ["lateness_ns"]
series = ["rank"]
panels = ["job", "communicator"]
*/
WITH
setting AS (SELECT getvariable('by') = 'iteration' AS by_iteration),
issued AS (
    SELECT c.trace_id, c.collective_id, i.iteration,
        coalesce(c.issue_ns, c.start_ns) < i.end_ns AS is_inside
    FROM (SELECT *, coalesce(process_id, -1) AS process_key FROM collective) c
    ASOF JOIN (SELECT *, coalesce(process_id, -1) AS process_key FROM iteration) i
        ON  i.trace_id = c.trace_id AND i.process_key = c.process_key
        AND coalesce(c.issue_ns, c.start_ns) >= i.start_ns
),
single AS (
    SELECT m.job, m.communicator, m.sequence, i.iteration, m.rank, m.kind, m.bytes,
        m.is_synchronizing, m.lateness_ns, m.wait_ns, m.start_skew_ns, m.end_skew_ns,
        m.transfer_ns,
        CASE WHEN m.start_skew_ns > m.uncertainty_ns THEN m.last_rank END AS last_rank,
        -- Rings of gloo end up to 16 ms apart.
        CASE WHEN m.is_synchronizing THEN m.end_skew_ns > 10 * greatest(m.uncertainty_ns,
            if(m.source = 'kernel', 20000, 10000000)) END AS is_anomaly,
        m.uncertainty_ns, m.mismatch
    FROM matched_collective m
    LEFT JOIN issued i
        ON i.trace_id = m.trace_id AND i.collective_id = m.collective_id AND i.is_inside
),
answer AS (
    SELECT s.*, NULL::BIGINT AS iteration_end FROM single s, setting t WHERE NOT t.by_iteration
    UNION ALL
    SELECT s.job, NULL, NULL, s.iteration, s.rank, NULL, sum(s.bytes)::BIGINT, true,
        max(s.lateness_ns), sum(s.wait_ns)::BIGINT, max(s.start_skew_ns), max(s.end_skew_ns),
        sum(s.transfer_ns)::BIGINT, arg_max(s.last_rank, s.start_skew_ns),
        bool_or(s.is_anomaly), max(s.uncertainty_ns),
        string_agg(DISTINCT s.mismatch, '; ' ORDER BY s.mismatch), s.iteration + 1
    FROM single s, setting t
    WHERE t.by_iteration AND s.is_synchronizing AND s.iteration IS NOT NULL
    GROUP BY s.job, s.iteration, s.rank
)
SELECT a.job, a.communicator, a.sequence, a.iteration, a.rank, a.kind, a.bytes, a.is_synchronizing,
    a.lateness_ns, a.wait_ns, a.start_skew_ns, a.end_skew_ns, a.transfer_ns, a.last_rank,
    a.is_anomaly, c.method AS clock, a.uncertainty_ns, a.mismatch, r.missing_ranks,
    a.sequence + 1 AS sequence_end, a.iteration_end
FROM answer a
JOIN job_ranks r ON r.job = a.job
LEFT JOIN clock_offset c ON c.job = a.job AND c.rank = a.rank
ORDER BY a.job, a.communicator, a.sequence, a.iteration, a.rank
