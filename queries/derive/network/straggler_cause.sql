/*
title    = "Causes of stragglers"
question = "Why does a rank begin collectives later than the others, and what does it cost them?"
source   = """work, waits for input and time of the host in the same steps, against the mean of its
    peers: ranks that make the others wait less than half as much. Kernels compare by name, grid
    and block, copies by bytes, operators on a CPU by name and size of inputs. Where sizes are
    equal, work without a recorded size counts as equal, too"""
grain    = "rank of a job that begins a collective last"
needs    = ["matched_collective", "_rank_step", "_rank_work", "_rank_time"]
returns = [
    "job", "rank", "steps", "step_ns", "lost_ns", "peers", "is_gpu", "kind", "calls", "peer_calls",
    "work_ns", "peer_work_ns", "equal_work_ratio", "slower_ns", "more_work_ns", "input_ns",
    "host_ns", "phase", "cause", "extra_ns", "reason", "sentence",
]
[columns]
steps = "compared steps: those in the analysis window of every rank"
step_ns = "mean of these steps over the ranks; NULL without any"
lost_ns = """time of a step in which another rank waits for this one, mean over the other ranks; on
    a GPU, while no compute kernel runs"""
peers = "number of ranks that it is compared with"
is_gpu = "true if GPU operations are compared, false for operators on the CPU; NULL without a step"
kind = """kernels, copies, graphs or operators: the kind of work that takes most longer; NULL
    without work to compare"""
calls = "kernels and copies, or operators, of a step of the rank"
peer_calls = "the same of its peers, mean"
work_ns = "their durations in a step, added up"
peer_work_ns = "the same of its peers, mean"
equal_work_ratio = """duration of that kind of work that the rank has in common with its peers ÷ its
    duration there; NULL without common work of a known size"""
slower_ns = "what a step of the rank takes longer for that common work"
more_work_ns = "what a step of the rank takes longer for other work: more, or of other sizes"
input_ns = """what a step of the rank waits longer for input than its peers; on a GPU, while it is
    idle"""
host_ns = """what a step of the rank is idle longer than its peers outside of these waits; on a CPU,
    time outside operators"""
phase = """compute, input or host: the one that takes most longer; NULL if it does not explain the
    loss"""
cause = """more work, slower at equal work, waits for input or host; NULL if the traces do not
    decide, see reason"""
extra_ns = "what the rank takes longer in a step for this cause; NULL without one"
reason = "why the cause is NULL; NULL otherwise"
sentence = "the cause in words, to follow the rank; NULL without one"
[advice]
missing = """needs collectives of at least two ranks; ingest the ranks together with
`tbd-trace ingest --job NAME DIRECTORY`"""
*/
WITH
late AS (
    SELECT job, last_rank AS rank
    FROM matched_collective
    WHERE is_synchronizing AND start_skew_ns > uncertainty_ns AND wait_ns > 0
    GROUP BY ALL
),
member AS (
    SELECT job, rank, count(*) AS steps, sum(end_ns - start_ns)::BIGINT AS ns,
        any_value(device_id) IS NOT NULL AS is_gpu
    FROM _rank_step GROUP BY ALL
),
job AS (
    SELECT job, count(*) AS ranks, max(steps) AS steps, sum(ns) / sum(steps) AS step_ns,
        bool_and(is_gpu) AS is_gpu, bool_and(is_gpu) = bool_or(is_gpu) AS is_alike
    FROM member GROUP BY job
),
loss AS (
    SELECT job, last_rank AS rank, sum(ns) AS ns
    FROM _rank_time WHERE cause = 'straggler' GROUP BY ALL
),
-- Of ranks that are late in turns, none is a measure for the others.
pair AS (
    SELECT l.job, l.rank, m.rank AS other,
        m.rank <> l.rank AND coalesce(o.ns, 0) < 0.5 * s.ns AS is_peer
    FROM late l
    JOIN loss s USING (job, rank)
    JOIN member m ON m.job = l.job
    LEFT JOIN loss o ON o.job = m.job AND o.rank = m.rank
),
share AS (
    SELECT p.job, p.rank, p.other, p.is_peer,
        1 / (j.steps * if(p.is_peer, count(*) FILTER (p.is_peer) OVER same, 1)) AS part
    FROM pair p JOIN job j USING (job)
    WHERE p.is_peer OR p.other = p.rank
    WINDOW same AS (PARTITION BY p.job, p.rank)
    QUALIFY bool_or(p.is_peer) OVER same
),
summed AS (
    SELECT s.job, s.rank, w.kind, w.work, w.size,
        coalesce(sum(w.calls * s.part) FILTER (NOT s.is_peer), 0) AS calls,
        coalesce(sum(w.calls * s.part) FILTER (s.is_peer), 0) AS peer_calls,
        coalesce(sum(w.ns * s.part) FILTER (NOT s.is_peer), 0) AS ns,
        coalesce(sum(w.ns * s.part) FILTER (s.is_peer), 0) AS peer_ns
    FROM share s JOIN _rank_work w ON w.job = s.job AND w.rank = s.other
    GROUP BY s.job, s.rank, w.kind, w.work, w.size
),
-- Where a rank runs more of a kind, the part of its time that has a counterpart is common.
work AS (
    SELECT *, ns * least(1, peer_calls / nullif(calls, 0)) AS own_ns,
        peer_ns * least(1, calls / nullif(peer_calls, 0)) AS other_ns
    FROM summed
),
by_kind AS (
    SELECT job, rank, kind, sum(calls) AS calls, sum(peer_calls) AS peer_calls, sum(ns) AS ns,
        sum(peer_ns) AS peer_ns,
        coalesce(sum(ns + peer_ns) FILTER (size IS NOT NULL), 0) AS of_sized_ns,
        coalesce(sum(own_ns) FILTER (size IS NOT NULL), 0) AS sized_ns,
        coalesce(sum(other_ns) FILTER (size IS NOT NULL), 0) AS peer_sized_ns,
        coalesce(sum(own_ns - other_ns) FILTER (size IS NULL), 0) AS unsized_slower_ns
    FROM work GROUP BY ALL
),
-- Sizes are equal if the part of the sized work that both have is nearly all of it.
compared AS (
    SELECT job, rank, sum(calls) AS calls, sum(peer_calls) AS peer_calls, sum(ns) AS work_ns,
        sum(peer_ns) AS peer_work_ns, arg_max(kind, ns - peer_ns) AS kind,
        arg_max({'ratio': sized_ns / nullif(peer_sized_ns, 0)}, ns - peer_ns).ratio
            AS equal_work_ratio,
        sum(sized_ns - peer_sized_ns) AS sized_slower_ns,
        sum(unsized_slower_ns) AS unsized_slower_ns, sum(of_sized_ns) AS of_sized_ns,
        sum(sized_ns + peer_sized_ns) >= 0.95 * sum(of_sized_ns) AS is_equal
    FROM by_kind GROUP BY ALL
),
-- Without any size, common work may be more work or slower.
divided AS (
    SELECT *,
        sized_slower_ns + if(is_equal AND of_sized_ns > 0, unsized_slower_ns, 0) AS slower_ns,
        if(of_sized_ns > 0, 0, unsized_slower_ns) AS unknown_ns,
        work_ns - peer_work_ns - slower_ns - unknown_ns AS more_work_ns
    FROM compared
),
waits AS (
    SELECT s.job, s.rank,
        coalesce(sum(t.ns * s.part * if(s.is_peer, -1, 1)) FILTER (t.cause = 'input'), 0)
            AS input_ns,
        coalesce(sum(t.ns * s.part * if(s.is_peer, -1, 1)) FILTER (t.cause = 'host'), 0) AS host_ns
    FROM share s
    LEFT JOIN _rank_time t ON t.job = s.job AND t.rank = s.other AND t.cause <> 'straggler'
    GROUP BY ALL
),
extra AS (
    SELECT l.job, l.rank, j.steps, j.step_ns, j.is_gpu, j.is_alike,
        coalesce(s.ns / (j.steps * (j.ranks - 1)), if(j.steps > 0, 0, NULL)) AS lost_ns,
        (SELECT count(*) FROM share h WHERE h.job = l.job AND h.rank = l.rank AND h.is_peer)
            AS peers,
        d.kind, d.calls, d.peer_calls, d.work_ns, d.peer_work_ns,
        d.equal_work_ratio, d.slower_ns, d.more_work_ns, d.unknown_ns, w.input_ns, w.host_ns,
        coalesce(d.work_ns - d.peer_work_ns, 0) AS compute_ns,
        greatest(compute_ns, w.input_ns, w.host_ns) AS most_ns,
        CASE most_ns WHEN compute_ns THEN 'compute' WHEN w.input_ns THEN 'input' ELSE 'host' END
            AS most
    FROM late l
    LEFT JOIN job j USING (job)
    LEFT JOIN loss s USING (job, rank)
    LEFT JOIN divided d USING (job, rank)
    LEFT JOIN waits w USING (job, rank)
),
evaluated AS (
    SELECT *,
        CASE
            WHEN steps IS NULL THEN 'no step is in the analysis window of every rank'
            WHEN NOT is_alike THEN 'some ranks have no GPU operations'
            WHEN lost_ns < 0.02 * step_ns THEN format(
                'the others wait {:.2g} % of a step for it, below 2 %', 100 * lost_ns / step_ns)
            WHEN peers = 0 THEN 'ranks are late in turns'
            WHEN most_ns < 0.5 * lost_ns THEN format('it loses {:.3g} ms a step, of which work, '
                || 'input and host explain {:.3g} ms at most', lost_ns / 1e6,
                greatest(most_ns, 0) / 1e6)
            WHEN most = 'compute' AND unknown_ns > greatest(slower_ns, more_work_ns) THEN
                'sizes are not recorded, so that its work may be more or slower'
        END AS reason
    FROM extra
),
named AS (
    SELECT *, CASE WHEN reason IS NULL OR starts_with(reason, 'sizes') THEN most END AS phase,
        CASE
            WHEN reason IS NOT NULL THEN NULL
            WHEN most = 'input' THEN 'waits for input'
            WHEN most = 'host' THEN 'host'
            WHEN slower_ns > more_work_ns THEN 'slower at equal work'
            ELSE 'more work' END AS cause
    FROM evaluated
)
SELECT job, rank, coalesce(steps, 0) AS steps, step_ns, lost_ns, peers, is_gpu, kind, calls,
    peer_calls, work_ns, peer_work_ns, equal_work_ratio, slower_ns, more_work_ns, input_ns,
    host_ns, phase, cause,
    CASE cause WHEN 'slower at equal work' THEN slower_ns WHEN 'more work' THEN more_work_ns
        WHEN 'waits for input' THEN input_ns WHEN 'host' THEN host_ns END AS extra_ns,
    reason,
    CASE cause
        WHEN 'slower at equal work'
            THEN format('whose {} take {:.2f} times as long at equal work', kind, equal_work_ratio)
        WHEN 'more work' THEN 'which has more work'
            || if(round(calls) > round(peer_calls), format(' ({:.0f} instead of {:.0f} {} a step)',
                calls, peer_calls, if(is_gpu, 'GPU operations', kind)),
                format(' ({} of other sizes)', kind))
        WHEN 'waits for input' THEN 'which waits longer for input'
        WHEN 'host' THEN if(is_gpu, 'whose GPU waits longer for the host',
            'which spends more time outside operators')
    END || format(': {:.3g} ms a step', extra_ns / 1e6) AS sentence
FROM named
