/*
title    = "Causes over time without a GPU"
question = "What does a step of a process without GPU operations spend each moment on?"
source   = """ranges of the thread of the iteration, in this order: loading of input,
    communication, backward, forward, optimizer. Communication is the thread's time in collectives
    and operators of c10d, and in pauses between its operators that end after a collective of gloo
    on another thread has ended: from the start of that collective to its end. Pauses between two
    forward operators, or two backward ones, belong to their phase"""
grain    = "stretch of a step with one cause"
needs    = ["_host_span"]
optional = ["_host_loading", "annotation", "annotation_semantics", "_forward_operator",
    "_autograd_thread", "collective", "matched_collective"]
returns = ["trace_id", "process_id", "iteration", "cause", "start_ns", "end_ns"]
[columns]
iteration = "as host_step.iteration"
cause = """input_pipeline, straggler (a collective waits for the last rank to begin it),
    communication, cpu_backward, cpu_forward (with the loss), cpu_optimizer or cpu_work (the
    rest)"""
start_ns = "start"
end_ns = "end"
*/
WITH
program AS MATERIALIZED (
    SELECT *, row_number() OVER () AS program
    FROM (SELECT DISTINCT trace_id, process_id, thread_id FROM _host_span)
),
span AS MATERIALIZED (
    SELECT p.program, s.trace_id, s.process_id, s.iteration, s.start_ns, s.end_ns
    FROM _host_span s
    JOIN program p
        ON  p.trace_id = s.trace_id AND p.process_id = s.process_id
        AND p.thread_id IS NOT DISTINCT FROM s.thread_id
),
-- Threads of the autograd engine work for the thread that waits for them.
member AS MATERIALIZED (
    SELECT program, trace_id, process_id, thread_id, false AS is_autograd FROM program
    UNION ALL
    SELECT p.program, p.trace_id, p.process_id, a.thread_id, true
    FROM program p
    JOIN _autograd_thread a
        ON  a.trace_id = p.trace_id AND a.process_id = p.process_id
        AND a.thread_id IS DISTINCT FROM p.thread_id
),
operator AS (
    SELECT m.program, a.start_ns, a.end_ns, m.is_autograd,
        regexp_matches(a.text, '^_?c10d\w*::|^record_param_comms') AS communicates
    FROM annotation a
    JOIN member m
        ON  m.trace_id = a.trace_id AND m.process_id = a.process_id
        AND m.thread_id IS NOT DISTINCT FROM a.thread_id
    WHERE a.source = 'operator' AND a.kind = 'push_pop' AND a.end_ns > a.start_ns
),
marked AS (
    SELECT m.program, s.start_ns, s.end_ns,
        CASE WHEN m.is_autograd THEN if(s.is_backward, 'autograd', NULL)
             WHEN s.phase = 'communication' THEN 'communication'
             WHEN s.phase = 'backward' OR s.is_backward THEN 'backward'
             WHEN s.phase IN ('forward', 'loss') OR f.annotation_id IS NOT NULL THEN 'forward'
             WHEN s.phase = 'optimizer' THEN 'optimizer' END AS lane
    FROM annotation_semantics s
    JOIN member m
        ON  m.trace_id = s.trace_id AND m.process_id = s.process_id
        AND m.thread_id IS NOT DISTINCT FROM s.thread_id
    LEFT JOIN _forward_operator f
        ON f.trace_id = s.trace_id AND f.annotation_id = s.annotation_id
),
lane_range AS (
    SELECT program, lane, start_ns, end_ns FROM marked WHERE lane IS NOT NULL
    UNION ALL
    SELECT p.program, 'input', l.start_ns, l.end_ns
    FROM _host_loading l
    JOIN program p
        ON  p.trace_id = l.trace_id AND p.process_id = l.process_id
        AND p.thread_id IS NOT DISTINCT FROM l.thread_id
    UNION ALL
    SELECT program, 'communication', start_ns, end_ns FROM operator
    WHERE communicates AND NOT is_autograd
    UNION ALL
    SELECT program, 'own', start_ns, end_ns FROM operator WHERE NOT is_autograd
    UNION ALL
    SELECT program, 'work', start_ns, end_ns FROM operator WHERE NOT communicates
),
-- Of ranges inside one another, the outer one counts.
outermost AS MATERIALIZED (
    SELECT program, lane, end_ns, greatest(start_ns, coalesce(latest_ns, start_ns)) AS start_ns
    FROM (
        SELECT *, max(end_ns) OVER (
            PARTITION BY program, lane ORDER BY start_ns, end_ns DESC
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS latest_ns
        FROM lane_range
    )
    WHERE end_ns > coalesce(latest_ns, start_ns)
),
-- Closures run the forward and backward pass inside the step of the optimizer.
passed AS (SELECT program, start_ns, end_ns FROM outermost WHERE lane IN ('forward', 'backward')),
optimizer AS (
    SELECT o.program, o.end_ns, greatest(o.start_ns, coalesce(p.end_ns, o.start_ns)) AS start_ns
    FROM (FROM outermost WHERE lane = 'optimizer') o
    ASOF LEFT JOIN passed p ON p.program = o.program AND o.end_ns > p.start_ns
),
pause AS (
    SELECT program, end_ns AS start_ns,
        lead(start_ns) OVER (PARTITION BY program ORDER BY start_ns) AS end_ns
    FROM outermost WHERE lane = 'work'
),
gloo AS (
    SELECT p.program, c.start_ns, c.end_ns, c.thread_id IS NOT DISTINCT FROM p.thread_id AS is_own,
        CASE WHEN m.is_synchronizing AND m.start_skew_ns > m.uncertainty_ns
             THEN least(c.start_ns + m.wait_ns, c.end_ns) END AS begun_ns
    FROM collective c
    JOIN program p ON p.trace_id = c.trace_id AND p.process_id = c.process_id
    LEFT JOIN matched_collective m
        ON m.trace_id = c.trace_id AND m.collective_id = c.collective_id
    WHERE c.source = 'gloo'
),
-- The thread goes on after the collective has ended, or up to 1 % of it earlier, as the range of
-- gloo ends after the call. Where it goes on before, it does not wait.
wait AS (
    SELECT g.program, g.begun_ns, if(g.is_own, g.end_ns, least(g.end_ns, p.end_ns)) AS end_ns,
        if(g.is_own, g.start_ns, greatest(g.start_ns, p.start_ns)) AS start_ns
    FROM (SELECT *, end_ns - 0.01 * (end_ns - start_ns) AS almost_ns FROM gloo) g
    ASOF LEFT JOIN pause p ON p.program = g.program AND g.almost_ns >= p.start_ns
    WHERE g.is_own OR (p.program IS NOT NULL AND (g.almost_ns <= p.end_ns OR p.end_ns IS NULL))
),
lane_interval AS (
    FROM outermost WHERE lane NOT IN ('optimizer', 'work')
    UNION ALL BY NAME
    SELECT program, 'optimizer' AS lane, start_ns, end_ns FROM optimizer
    UNION ALL BY NAME
    SELECT program, 'communication' AS lane, start_ns, end_ns FROM wait
    UNION ALL BY NAME
    SELECT program, 'straggler' AS lane, start_ns, begun_ns AS end_ns FROM wait
    WHERE begun_ns > start_ns
),
change AS (
    SELECT program, lane, unnest([start_ns, end_ns]) AS at_ns, unnest([1, -1]) AS step
    FROM lane_interval WHERE end_ns > start_ns
    UNION ALL
    SELECT program, NULL, unnest([start_ns, end_ns]), 0 FROM span
),
moment AS (
    SELECT program, at_ns,
        coalesce(sum(step) FILTER (lane = 'input'), 0) AS input,
        coalesce(sum(step) FILTER (lane = 'straggler'), 0) AS straggler,
        coalesce(sum(step) FILTER (lane = 'communication'), 0) AS communication,
        coalesce(sum(step) FILTER (lane = 'backward'), 0) AS backward,
        coalesce(sum(step) FILTER (lane = 'forward'), 0) AS forward,
        coalesce(sum(step) FILTER (lane = 'optimizer'), 0) AS optimizer,
        coalesce(sum(step) FILTER (lane = 'autograd'), 0) AS autograd,
        coalesce(sum(step) FILTER (lane = 'own'), 0) AS own
    FROM change
    GROUP BY ALL
),
state AS (
    SELECT program, at_ns AS start_ns,
        lead(at_ns) OVER (PARTITION BY program ORDER BY at_ns) AS end_ns,
        CASE WHEN sum(input) OVER until_now > 0 THEN 'input_pipeline'
             WHEN sum(straggler) OVER until_now > 0 THEN 'straggler'
             WHEN sum(communication) OVER until_now > 0 THEN 'communication'
             WHEN sum(backward) OVER until_now > 0 THEN 'cpu_backward'
             WHEN sum(forward) OVER until_now > 0 THEN 'cpu_forward'
             WHEN sum(optimizer) OVER until_now > 0 THEN 'cpu_optimizer'
             WHEN sum(autograd) OVER until_now > 0 AND sum(own) OVER until_now = 0
                 THEN 'cpu_backward' END AS cause
    FROM moment
    WINDOW until_now AS (PARTITION BY program ORDER BY at_ns ROWS UNBOUNDED PRECEDING)
),
placed AS (
    SELECT s.trace_id, s.process_id, s.iteration, s.program, s.start_ns AS step_start_ns,
        t.cause, t.start_ns, t.end_ns,
        CASE WHEN starts_with(t.cause, 'cpu_') THEN t.cause END AS phase
    FROM state t
    ASOF JOIN span s ON s.program = t.program AND t.start_ns >= s.start_ns
    WHERE t.end_ns <= s.end_ns
),
filled AS (
    SELECT * EXCLUDE (cause, phase),
        coalesce(cause, CASE WHEN before_it = after_it AND before_it <> 'cpu_optimizer'
            THEN before_it END, 'cpu_work') AS cause
    FROM (
        SELECT *,
            last_value(phase IGNORE NULLS) OVER (
                PARTITION BY program, step_start_ns ORDER BY start_ns
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before_it,
            first_value(phase IGNORE NULLS) OVER (
                PARTITION BY program, step_start_ns ORDER BY start_ns
                ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS after_it
        FROM placed
    )
),
-- Moments with equal causes that follow each other are one stretch.
turn AS (
    SELECT *, count(*) FILTER (is_new) OVER (
        PARTITION BY program, step_start_ns ORDER BY start_ns ROWS UNBOUNDED PRECEDING) AS stretch
    FROM (
        SELECT *, cause IS DISTINCT FROM lag(cause) OVER (
            PARTITION BY program, step_start_ns ORDER BY start_ns) AS is_new
        FROM filled
    )
)
SELECT trace_id, process_id, iteration, cause, min(start_ns) AS start_ns, max(end_ns) AS end_ns
FROM turn
GROUP BY trace_id, process_id, iteration, program, step_start_ns, stretch, cause
ORDER BY trace_id, process_id, start_ns
